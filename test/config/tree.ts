import t from 'tap'
import { parseTree, positionAt, printYaml, treeAt } from '../../src/config/tree.ts'

const text = `# a comment
models:
  demo:
    targets: [demo, {weight: 3}]
    price:
list:
  - one
  -   two
`

t.test('every key and value has its place', async (t) => {
  const { tree, problems } = parseTree(text)
  t.same(problems, [])
  t.same(positionAt(tree, ['models', 'demo'], 'key'), { line: 3, column: 3 })
  t.same(positionAt(tree, ['models', 'demo', 'targets', 0]), { line: 4, column: 15 })
  t.same(positionAt(tree, ['models', 'demo', 'targets', 1, 'weight']), { line: 4, column: 30 })
  t.same(positionAt(tree, ['list', 1]), { line: 8, column: 7 })
})

t.test('a missing value has the place of the block that should hold it', async (t) => {
  const { tree } = parseTree(text)
  t.same(positionAt(tree, ['models', 'demo', 'context_window']), { line: 3, column: 3 })
  t.same(positionAt(tree, ['nothing', 'here']), { line: 2, column: 1 })
  t.same(positionAt(tree, ['models', 'demo', 'price']), { line: 5, column: 5 })
  t.equal(treeAt(tree, ['models', 'demo', 'price', 'input']), undefined)
})

t.test('numbers keep their text, and only YAML 1.2 is understood', async (t) => {
  const { tree } = parseTree('price: 0.070\nyes: yes\n3.10: octal\nbig: 9007199254740993\n')
  t.match(treeAt(tree, ['price']), { value: 0.07, source: '0.070' })
  t.match(treeAt(tree, ['yes']), { value: 'yes' })
  t.match(treeAt(tree, ['3.10']), { value: 'octal' })
  t.match(treeAt(tree, ['big']), { source: '9007199254740993' })
})

t.test('an alias stands for its value, with its own place', async (t) => {
  const { tree, problems } = parseTree('a: &x {b: 1}\nc: *x\n')
  t.same(problems, [])
  t.match(treeAt(tree, ['c', 'b']), { value: 1, at: { line: 1, column: 11 } })
})

t.test('aliases of aliases are refused before they fill the memory', async (t) => {
  const lines = Array.from({ length: 60 }, (_, i) => `k${i + 1}: &a${i + 1} [*a${i}, *a${i}]`)
  const started = process.memoryUsage().heapUsed
  const { problems } = parseTree(`k0: &a0 [x]\n${lines.join('\n')}\n`)
  t.equal(problems.length, 1)
  t.match(problems, [{ message: /too large/ }])
  t.ok(process.memoryUsage().heapUsed - started < 64 * 2 ** 20)
})

t.test('depth is limited', async (t) => {
  const { problems } = parseTree(`a: ${'['.repeat(80)}${']'.repeat(80)}`)
  t.match(problems, [{ message: 'is nested too deeply' }])
  t.match(parseTree('['.repeat(50_000)).problems[0]?.message, /nested too deeply|not valid YAML/)
})

t.test('a key that is there twice is a problem at the second', async (t) => {
  const { problems } = parseTree('a: 1\nb: 2\na: 3\n')
  t.match(problems, [{ line: 3, column: 1, path: ['a'], message: /first in line 1/ }])
})

t.test('printed YAML has each value in its place', async (t) => {
  const shared = { x: 1 }
  t.equal(printYaml({ a: shared, b: shared }), 'a:\n  x: 1\nb:\n  x: 1\n')
})
