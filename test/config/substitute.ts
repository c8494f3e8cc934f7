import { join } from 'node:path'
import t from 'tap'
import { readText, substitute, whyUnreadable } from '../../src/config/substitute.ts'
import { parseTree, treeAt } from '../../src/config/tree.ts'

const env = { NAME: 'value', EMPTY: '', NESTED: '${NAME}' }

const replace = async (value: string, folder = '.') => {
  const { tree } = parseTree(`key: ${JSON.stringify(value)}`)
  const result = await substitute(tree, { env, folder })
  const node = treeAt(result.tree, ['key'])
  const text = node?.kind === 'scalar' ? node.value : undefined
  return { text, messages: result.problems.map(({ message }) => message) }
}

t.test('names, defaults and files are replaced inside values', async (t) => {
  const folder = t.testdir({ secret: 'from a file\n', crlf: 'two\r\nlines\r\n' })
  const cases = {
    'a ${NAME} b ${NAME}': 'a value b value',
    '${NAME:-default}': 'value',
    '${UNSET:-default}': 'default',
    '${EMPTY:-default}': 'default',
    '${UNSET:-}': '',
    '${EMPTY}': '',
    '${UNSET:-a:-b}': 'a:-b',
    '${file:secret}': 'from a file',
    '${file:crlf}': 'two\r\nlines',
    '$${NAME}': '${NAME}',
    '$NAME $$ {NAME}': '$NAME $$ {NAME}',
  }
  for (const [value, text] of Object.entries(cases))
    t.equal((await replace(value, folder)).text, text, value)
})

t.test('replaced text is not replaced again', async (t) => {
  t.equal((await replace('${NESTED}')).text, '${NAME}')
})

t.test('a failed replacement is a problem, and shows no value', async (t) => {
  const folder = t.testdir({ sub: {}, binary: Buffer.from([0xff, 0xfe]) })
  const cases = {
    '${UNSET}': /no UNSET/,
    '${toString}': /no toString/,
    '${file:none}': /no such file/,
    '${file:sub}': /a folder/,
    '${file:binary}': /not UTF-8/,
    '${NAME': /write \$\{NAME\}/,
    '${NAME:?}': /write \$\{NAME\}/,
    '${}': /write \$\{NAME\}/,
  }
  for (const [value, message] of Object.entries(cases)) {
    const { text, messages } = await replace(value, folder)
    t.match(messages, [message], value)
    t.equal(text, null)
  }
})

t.test('keys, numbers and comments are not replaced', async (t) => {
  const { tree } = parseTree('${NAME}: 1 # ${UNSET}\nlist: ["${NAME}", 2]')
  const result = await substitute(tree, { env, folder: '.' })
  t.same(result.problems, [])
  t.match(treeAt(result.tree, ['${NAME}']), { value: 1 })
  t.match(treeAt(result.tree, ['list', 0]), { value: 'value', replaced: true })
})

t.test('a text, or why there is none', async (t) => {
  const folder = t.testdir({ text: 'a text\n', sub: {}, binary: Buffer.from([0xff, 0xfe]) })
  const read = (name: string) => readText(join(folder, name))
  t.strictSame(await read('text'), { text: 'a text\n' })
  t.strictSame(await read('none'), { fault: 'there is no such file' })
  t.strictSame(await read('sub'), { fault: 'it is a folder' })
  t.strictSame(await read('binary'), { fault: 'it is not UTF-8 text' })
  t.equal(whyUnreadable(Object.assign(new Error('x'), { code: 'EIO' })), 'EIO')
})
