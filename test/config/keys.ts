import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { gatewayKeys } from '../../src/config/keys.ts'
import { formatProblem } from '../../src/config/problem.ts'
import { bytes, duration, z } from '../../src/config/schema.ts'
import { keysOf, pathsIn, withAllKeys } from '../../scripts/full-example.ts'
import { plugins as builtIn } from '../../src/gateway.ts'
import { drivers } from '../../src/store/drivers.ts'
import { exampleFiles, loadExample } from '../fixtures/config/examples.ts'

const full = (await exampleFiles()).find((file) => file.endsWith('full.yaml')) ?? ''
const text = await readFile(full, 'utf8')
/** Names that the operator chooses. */
const names = new Set(['assistant', 'default', 'x-team'])

t.test('gateway.yaml and every example are valid', async (t) => {
  for (const file of await exampleFiles()) {
    const loaded = await loadExample(file)
    t.ok('config' in loaded, file)
    if ('problems' in loaded) t.fail(loaded.problems.map(formatProblem).join('\n'))
  }
})

t.test(
  'every misspelt key of full.yaml is reported with its place and the right word',
  async (t) => {
    const keys = text.split('\n').flatMap((line, i) => {
      const [, indent = '', key = ''] = /^([ -]*)([a-z_0-9]+):( |$)/.exec(line) ?? []
      return key === '' || names.has(key) ? [] : [{ line: i + 1, column: indent.length + 1, key }]
    })
    t.ok(keys.length > 60)
    const misspell = [
      (key: string) => `${key[0]}x${key.slice(1)}`,
      (key: string) => `${key.slice(0, -2)}${key.at(-1)}${key.at(-2)}`,
    ]
    for (const { line, column, key } of keys) {
      for (const wrong of misspell.map((spell) => spell(key))) {
        if (wrong === key) continue
        const lines = text.split('\n')
        const before = lines[line - 1] ?? ''
        lines[line - 1] =
          before.slice(0, column - 1) + wrong + before.slice(column - 1 + key.length)
        const file = join(t.testdir({ 'gateway.yaml': lines.join('\n') }), 'gateway.yaml')
        const loaded = await loadExample(file)
        const problems = 'problems' in loaded ? loaded.problems.map(formatProblem) : []
        t.equal(problems.length, 1, `${wrong}: ${problems.length} problem`)
        const [place, rest] = [`${file}:${line}:${column}: `, `unknown key; did you mean "${key}"?`]
        t.ok(problems[0]?.startsWith(place) && problems[0].endsWith(rest), `${wrong}: ${key}`)
      }
    }
  },
)

t.test('full.yaml has every key', async (t) => {
  const present = pathsIn(text)
  for (const { path } of keysOf(gatewayKeys(builtIn))) t.ok(present.has(path), path)
})

t.test('generate.ts adds to full.yaml the keys that it lacks, each in its block', async (t) => {
  const inner = z.strictObject({ old: z.int(), least: duration().prefault('5s') })
  const schema = z.strictObject({
    store: z.strictObject({
      here: inner,
      there: z.strictObject({ name: z.string(), most: bytes().prefault('1KiB') }).optional(),
    }),
    list: z.array(z.strictObject({ url: z.string(), tags: z.array(z.string()).default(['*']) })),
    empty: z.strictObject({ on: z.boolean().default(true) }),
    fresh: z.strictObject({ off: z.boolean().default(false) }).prefault({}),
    none: z.strictObject({}).prefault({}),
    last: z.int().default(3),
  })
  const before = ['store:', '  here:', '    old: 1', '', 'list:', '  - url: x', '', 'empty: {}', '']
  const after = [
    'store:',
    '  here:',
    '    old: 1',
    '    least: 5s',
    '#   there:',
    '#     name:',
    '#     most: 1KiB',
    '',
    'list:',
    '  - url: x',
    '    tags: ["*"]',
    '',
    'empty:',
    '  on: true',
    'fresh:',
    '  off: false',
    'none: {}',
    'last: 3',
    '',
  ]
  const keys = keysOf(schema)
  t.equal(withAllKeys(before.join('\n'), keys), after.join('\n'))
  t.equal(withAllKeys(after.join('\n'), keys), after.join('\n'), 'and no key twice')
})

t.test('every key has a description, and a name of small letters', async (t) => {
  for (const { path, schema } of keysOf(gatewayKeys(builtIn))) {
    const described = z.globalRegistry.get(schema)?.description ?? ''
    t.match(described, /^[A-Z`].*[.]$/s, path)
    t.match(path, /^[a-z0-9_.]+$/, 'words in small letters, with _ between them')
  }
})

t.test('every default is a valid value of its key', async (t) => {
  const all = gatewayKeys([]).parse({ models: { demo: { targets: ['demo'] } } })
  t.equal(all.drain, 30_000)
  t.equal(all.limits.bodies, 2 ** 27)
})

t.test(
  'the message of a wrong store shows a block of each kind, which can be loaded',
  async (t) => {
    const problemsOf = async (store: string) => {
      const models = 'models: { m: { targets: [demo] } }'
      const dir = t.testdir({ 'gateway.yaml': `${models}\nstore: ${store}\n` })
      const loaded = await loadExample(join(dir, 'gateway.yaml'))
      return 'problems' in loaded ? loaded.problems.map(formatProblem) : []
    }
    const [problem = ''] = await problemsOf('tape')
    for (const [name, { example }] of Object.entries(drivers)) {
      const block = `{${name}: ${example}}`
      t.ok(problem.includes(block), problem)
      t.strictSame(await problemsOf(block), [])
    }
  },
)
