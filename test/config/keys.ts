import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { gatewayKeys } from '../../src/config/keys.ts'
import { formatProblem } from '../../src/config/problem.ts'
import { elementOf, optionsOf, shapeOf, valueOf } from '../../src/config/shape.ts'
import { z, type Schema } from '../../src/config/schema.ts'
import { plugins as builtIn } from '../../src/gateway.ts'
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
  const present = new Set([...text.matchAll(/([a-z_0-9]+):(?= |$)/gm)].map((match) => match[1]))
  for (const { path, key } of keysOf(gatewayKeys(builtIn), '')) t.ok(present.has(key), path)
})

t.test('every key has a description', async (t) => {
  for (const { path, schema } of keysOf(gatewayKeys(builtIn), '')) {
    const described = z.globalRegistry.get(schema)?.description ?? ''
    t.ok(
      /^[A-Z`].*[.]$/s.test(described) || /^\.plugins\.[a-z]+$/.test(path),
      `${path} ${described}`,
    )
  }
})

t.test('every default is a valid value of its key', async (t) => {
  const all = gatewayKeys([]).parse({ models: { demo: { targets: ['demo'] } } })
  t.equal(all.drain, 30_000)
  t.equal(all.limits.bodies, 2 ** 27)
})

interface Key {
  readonly path: string
  readonly key: string
  readonly schema: Schema
}

function keysOf(schema: Schema, path: string): readonly Key[] {
  return optionsOf(schema).flatMap(({ core }): readonly Key[] => {
    const inner = elementOf(core) ?? valueOf(core)
    if (inner) return keysOf(inner, path)
    return Object.entries(shapeOf(core)).flatMap(([key, child]) => [
      { path: `${path}.${key}`, key, schema: child },
      ...keysOf(child, `${path}.${key}`),
    ])
  })
}
