// docs/errors.md beside its table, which is generated (test/docs-configuration.ts): its example, and the codes that it
// says are never sent.

import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { errorTable } from '../src/error-table.ts'
import { GatewayError, errorBody } from '../src/errors.ts'
import { filesIn, root } from './fixtures/source.ts'

const text = await readFile(new URL('../docs/errors.md', import.meta.url), 'utf8')
t.test('the example is what the gateway would write', (t) => {
  const example = /```json\n(.*?)```/s.exec(text)?.[1] ?? ''
  const { request_id: id } = JSON.parse(example) as { request_id: string }
  const shortage = { available: 120, needed: 450, owed: 0 }
  const refusal = new GatewayError('insufficient_balance', { shortage })
  t.same(JSON.parse(example), JSON.parse(errorBody(refusal, id)))
  t.end()
})

t.test('codes that no source uses are documented as never sent', (t) => {
  const sources = [...filesIn('src', '.ts'), ...filesIn('src', '.lua')]
    .filter((path) => path !== 'error-table.ts')
    .map((path) => readFileSync(join(root, 'src', path), 'utf8'))
  const isSent = (code: string) => sources.some((source) => source.includes(`'${code}'`))
  const unsent = Object.keys(errorTable).filter((code) => !isSent(code))
  const said = /No route sends ((?:`\w+`(?:, | or )?)+)/.exec(text)?.[1] ?? ''
  t.same([...said.matchAll(/\w+(?=`)/g)].map(String), unsent)
  t.end()
})
