// The plugin of docs/plugins.md, loaded by its path: it changes streams and whole answers alike.

import t from 'tap'
import { writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import { until } from '../fixtures/until.ts'

const redact = fileURLToPath(new URL('../../config/examples/plugins/redact.ts', import.meta.url))

t.test(
  'an operator plugin redacts words in streams and in JSON, and the charge stays',
  async (t) => {
    const backend = await startBackend(t, chat({ chunks: 3, text: () => 'secret ' }))
    const gate = await spawnGateway(t, {
      yaml: `
models: { m: { targets: [{ url: '${backend.url}' }] } }
plugins:
  ${redact}: { words: [secret] }
`,
    })
    const { key } = await gate.account(10_000)
    const ask = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
    for (const stream of [true, false]) {
      const text = await (await gate.call('/v1/chat', key, { ...ask, stream })).text()
      t.notMatch(text, /secret/)
      t.match(text, /\*{6}/)
    }
    const balance = (await (await gate.call('/api/billing/balance', key)).json()) as {
      spent: number
    }
    t.equal(balance.spent, backend.served.prompt + backend.served.completion)
  },
)

const greeter = (word: string) => `
import { answering, json, z } from 'tollgate/plugin'
import { mark } from './mark.ts'

const begin = (name: string) => answering(async () => json({ says: mark('${word}', name) }))

export const plugin = {
  name: 'greeter',
  schema: z.strictObject({ name: z.string() }),
  setup: (_gateway: unknown, { name }: { name: string }) => ({
    routes: [{ method: 'GET', path: '/greet', access: 'anybody', body: 'none', begin: begin(name) }],
  }),
}
`
const mark = (sign: string) =>
  `export const mark = (word: string, name: string) => \`\${word} \${name}${sign}\`\n`

t.test('an edited plugin, module or block is taken up while the gateway runs', async (t) => {
  const dir = t.testdir({ 'greeter.ts': greeter('Hi'), 'mark.ts': mark('!') })
  const yaml = (name: string) => `
models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }
plugins: { ${dir}/greeter.ts: { name: ${name} } }
`
  const gate = await spawnGateway(t, { yaml: yaml('you') })
  const says = async (text: string) => {
    await until(async () => {
      const answer = await fetch(`${gate.url}/greet`)
      return ((await answer.json()) as { says: string }).says === text
    })
  }
  await says('Hi you!')
  await writeFile(`${dir}/greeter.ts`, greeter('Hello'))
  await says('Hello you!')
  await writeFile(`${dir}/mark.ts`, mark('?'))
  await says('Hello you?')
  await gate.rewrite(yaml('all'))
  await says('Hello all?')
  await writeFile(`${dir}/greeter.ts`, 'export const plugin =')
  await gate.said(/last good one stays/)
  await says('Hello all?')
})
