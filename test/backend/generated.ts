// What was generated is found whole, counted once, and kept within its bound.

import t from 'tap'
import { Generated, findGenerated } from '../../src/backend/generated.ts'

const found = (data: string): string[] => {
  const pieces: string[] = []
  findGenerated(data, (piece) => pieces.push(piece))
  return pieces
}

t.test('strings are found whole, whatever is escaped in them', async (t) => {
  for (const said of [
    'a',
    '"',
    '\\',
    '\\"',
    'a"content":"b',
    '\n\t',
    '\u0001',
    '{"text":"x"}',
    '"]}',
  ]) {
    const data = JSON.stringify({ choices: [{ delta: { content: said } }] })
    t.strictSame(
      found(data).map((piece) => JSON.parse(`"${piece}"`) as unknown),
      [said],
    )
  }
})

t.test('keys that are not generated text are not found', async (t) => {
  t.strictSame(
    found(
      '{"id":"x","model":"m","role":"assistant","name":"n","logprobs":{"content":[{"token":"t"}]}}',
    ),
    [],
  )
})

t.test('the name and the arguments of a tool call are found', async (t) => {
  const call = { function: { name: 'f', arguments: '{"a":1}' } }
  t.strictSame(found(JSON.stringify({ choices: [{ delta: { tool_calls: [call] } }] })), [
    'f',
    '{\\"a\\":1}',
  ])
})

t.test(
  'a thought sent under two keys counts once, the same text of two choices twice',
  async (t) => {
    t.strictSame(found('{"delta":{"reasoning":"hm","reasoning_content":"hm"}}'), ['hm'])
    t.strictSame(found('{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"a"}}]}'), [
      'a',
      'a',
    ])
  },
)

t.test('a string without end is taken to the end of the data', async (t) => {
  t.strictSame(found('{"content":"abc'), ['abc'])
  t.strictSame(found('{"content":"abc\\"'), ['abc\\"'])
})

t.test('the tokenizer gets what was said, decoded, in order', async (t) => {
  const texts: string[] = []
  const generated = new Generated(async (text) => texts.push(text))
  for (const said of ['Grüße, ', '"Welt"\n', '😀']) {
    generated.add(Buffer.from(JSON.stringify(said).slice(1, -1)).toString('latin1'))
  }
  generated.add('\\ud83d')
  generated.add('\\ude00')
  await generated.tokens()
  t.equal(texts.join(''), 'Grüße, "Welt"\n😀😀')
})

t.test('characters are code points, not bytes or escapes', async (t) => {
  const generated = new Generated(async () => 0)
  generated.add(Buffer.from('é€').toString('latin1'))
  generated.add('\\u4f60\\n')
  t.equal(generated.chars, 4)
})

t.test('of a long answer no more than 64 KiB waits, and all of it is counted once', async (t) => {
  let largest = 0
  const generated = new Generated(async (text) => {
    largest = Math.max(largest, text.length)
    return text.length
  })
  let added = 0
  for (let i = 0; i < 10_000; i++) {
    const piece = `word ${i} `
    generated.add(piece)
    added += piece.length
    if (i % 1000 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal(await generated.tokens(), added)
  t.equal(await generated.tokens(), added, 'and once only')
  t.ok(largest <= 66 * 1024)
})

t.test('a tokenizer that fails or falls behind costs exactness, not the count', async (t) => {
  const failing = new Generated(async () => Promise.reject(new Error('broken')))
  failing.add('12345678')
  t.equal(await failing.tokens(), 2)
  const release: (() => void)[] = []
  const slow = new Generated(
    (text) => new Promise((resolve) => release.push(() => resolve(text.length / 4))),
  )
  for (let i = 0; i < 10; i++) slow.add('x'.repeat(64 * 1024))
  const tokens = slow.tokens()
  let isThere = false
  void tokens.then(() => (isThere = true))
  while (!isThere) {
    release.shift()?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal(await tokens, (10 * 64 * 1024) / 4)
})
