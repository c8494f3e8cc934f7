import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { jsonSchema, reference } from '../../src/config/reference.ts'
import { parseTree, type Tree } from '../../src/config/tree.ts'
import { plugins as builtIn } from '../../src/gateway.ts'
import { exampleFiles } from '../fixtures/config/examples.ts'
import { invalidPaths } from '../fixtures/config/json-schema.ts'
import { folder, plugins } from '../fixtures/config/load.ts'

const root = join(import.meta.dirname, '../..')

/** The values as an editor reads them: without environment and positions. */
function plain(tree: Tree): unknown {
  if (tree.kind === 'scalar') return tree.value
  if (tree.kind === 'list') return tree.items.map(plain)
  return Object.fromEntries(tree.entries.map(({ key, value }) => [key, plain(value)]))
}

const valuesOf = async (file: string) => plain(parseTree(await readFile(file, 'utf8')).tree)

t.test('editors find nothing wrong in gateway.yaml and the examples', async (t) => {
  for (const file of await exampleFiles()) {
    t.same(invalidPaths(jsonSchema(builtIn), await valuesOf(file)), [], file)
  }
})

t.test('editors accept the environment wherever the loader does', async (t) => {
  const values = await valuesOf(join(folder, 'good/environment.yaml'))
  t.same(invalidPaths(jsonSchema(plugins), values), [])
  const blocks = await valuesOf(join(folder, 'good/blocks.yaml'))
  t.same(invalidPaths(jsonSchema(plugins), blocks), [])
})

t.test('editors underline unknown keys and wrong types', async (t) => {
  const schema = jsonSchema(plugins)
  const unknown = await valuesOf(join(folder, 'bad/unknown-keys.yaml'))
  for (const path of ['.lisen', '.models.demo.target', '.models.demo.price.inptu']) {
    t.ok(invalidPaths(schema, unknown).includes(path), path)
  }
  const wrong = await valuesOf(join(folder, 'bad/wrong-types.yaml'))
  for (const path of [
    '.admin',
    '.data',
    '.models.demo.max_output_tokens',
    '.drain',
    '.log.level',
  ]) {
    t.ok(invalidPaths(schema, wrong).includes(path), path)
  }
})

t.test('editors can complete: descriptions and defaults are there', async (t) => {
  t.match(jsonSchema(plugins), {
    properties: {
      drain: { description: /SIGTERM/, default: '30s' },
      plugins: { properties: { guard: {} }, patternProperties: { '^\\.{0,2}/': {} } },
    },
  })
})

t.test('the reference has a line for every key, with type, default and sentence', async (t) => {
  const text = reference(plugins)
  t.match(text, '| `listen` | whole number or block | `8080` | Where clients connect')
  t.match(text, '| `models.<name>.price.input` | decimal | `1` | Balance tokens')
  t.match(text, '| `models.<name>.targets` | list of `demo` or block | *required* |')
  t.match(text, '| `plugins.guard.pepper` | secret | `""` |')
  t.match(text, '| `limits.sse_line` | size | `8MiB` |')
})

t.test('the generated files match the schemas', async (t) => {
  const { status, stderr } = spawnSync(process.execPath, ['scripts/generate.ts', '--check'], {
    cwd: root,
    encoding: 'utf8',
  })
  t.equal(status, 0, stderr)
})
