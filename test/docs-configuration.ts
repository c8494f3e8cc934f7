// What is generated from the schemas of the configuration: an editor's view of gateway.yaml, and the reference.

import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { findings } from '../src/config/explain.ts'
import type { PluginKeys } from '../src/config/keys.ts'
import { formatPath } from '../src/config/problem.ts'
import { jsonSchema, reference } from '../scripts/config-reference.ts'
import { z } from '../src/config/schema.ts'
import { parseTree, type Tree } from '../src/config/tree.ts'
import { plugins as builtIn } from '../src/gateway.ts'
import { exampleFiles } from './fixtures/config/examples.ts'
import { folder, plugins } from './fixtures/config/load.ts'

const root = join(import.meta.dirname, '..')

/** The values as an editor reads them: without environment and positions. */
function plain(tree: Tree): unknown {
  if (tree.kind === 'scalar') return tree.value
  if (tree.kind === 'list') return tree.items.map(plain)
  return Object.fromEntries(tree.entries.map(({ key, value }) => [key, plain(value)]))
}

const valuesOf = async (file: string) => plain(parseTree(await readFile(file, 'utf8')).tree)

/** The paths that an editor underlines. */
async function underlined(known: readonly PluginKeys[], file: string): Promise<readonly string[]> {
  const schema = z.fromJSONSchema(jsonSchema(known) as Parameters<typeof z.fromJSONSchema>[0])
  const { error } = schema.safeParse(await valuesOf(file))
  return findings(error?.issues ?? []).map(({ path }) => formatPath(path))
}

t.test('editors find nothing wrong in gateway.yaml and the examples', async (t) => {
  for (const file of await exampleFiles()) {
    t.same(await underlined(builtIn, file), [], file)
  }
})

t.test('editors accept the environment wherever the loader does', async (t) => {
  for (const name of ['environment', 'blocks']) {
    t.same(await underlined(plugins, join(folder, `good/${name}.yaml`)), [], name)
  }
})

t.test('editors underline unknown keys and wrong types', async (t) => {
  for (const [name, paths] of [
    ['unknown-keys', ['lisen', 'models.demo.target', 'models.demo.price.inptu']],
    ['wrong-types', ['admin', 'data', 'models.demo.max_output_tokens', 'drain', 'log.level']],
  ] as const) {
    const found = await underlined(plugins, join(folder, `bad/${name}.yaml`))
    for (const path of paths) t.ok(found.includes(path), path)
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
