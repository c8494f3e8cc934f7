// src/plain.ts: the switches, and that the table in ARCHITECTURE.md is correct.

import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { plain, plainProblem, reaches } from '../src/plain.ts'
import { readSources, root } from './fixtures/source.ts'

const textOf = (path: string) => readFileSync(join(root, path), 'utf8')

/** What is switched off in a process that starts with this value. */
async function offWith(value: string): Promise<unknown> {
  const url = new URL('../src/plain.ts', import.meta.url).href
  const script = `const { plain } = await import('${url}'); console.log(JSON.stringify([...plain]))`
  const env = { TOLLGATE_PLAIN: value }
  const args = ['--input-type=module', '-e', script]
  return JSON.parse((await promisify(execFile)(process.execPath, args, { env })).stdout)
}

t.test('the environment switches off what it names, and nothing by default', async (t) => {
  t.equal(plain.size, 0)
  t.same(await offWith('redis-writes, first-byte'), ['redis-writes', 'first-byte'])
  t.same(await offWith('all'), reaches)
  t.same(await offWith(''), [])
})

t.test('an unknown name is refused, with the known ones', async (t) => {
  for (const text of [undefined, '', 'all', 'redis-writes', ...reaches, reaches.join(', ')]) {
    t.equal(plainProblem(text), undefined)
  }
  const problem = plainProblem('redis-writes,redis-reads, nothing')
  t.match(problem, /no redis-reads, nothing\. Write all, or some of .*redis-writes.*\./)
})

/** Name, file, …, test: the first, second and last cell of each row. */
const rows = [
  ...textOf('ARCHITECTURE.md').matchAll(/^\| `([a-z-]+)` +\| `([^`]+)`.*`([^`]+)` +\|$/gm),
]

t.test(
  'each is in the table, with the file that has it and the test that runs both ways',
  async (t) => {
    t.strictSame(
      rows.map(([, name]) => name),
      [...reaches],
    )
    for (const [, name, file = '', test = ''] of rows) {
      t.ok(textOf(`src/${file}`).includes(`plain.has('${name}')`), `${name} in ${file}`)
      t.ok(existsSync(join(root, test)) && textOf(test).includes(`bothWays(t, '${name}')`), test)
    }
  },
)

t.test('each is used in one file', async (t) => {
  const sources = readSources()
  for (const reach of reaches) {
    const users = sources.filter(({ text }) => text.includes(`plain.has('${reach}')`))
    t.equal(users.length, 1, reach)
  }
})

t.test('docs/operating.md names each', async (t) => {
  const text = textOf('docs/operating.md')
  for (const reach of reaches) t.ok(text.includes(`\`${reach}\``), reach)
})
