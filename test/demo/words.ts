// What the demo model says and how it counts.

import t from 'tap'
import { demoAnswer, demoEmbedding, pieces } from '../../src/demo/words.ts'

t.test('pieces joined are the text, and a piece is a word or a sign', async (t) => {
  for (const text of [
    '',
    ' ',
    'Hello, world!',
    '  a\n\nb ',
    '你好 world',
    'x'.repeat(100),
    '😀 ok',
  ]) {
    t.equal(pieces(text).join(''), text)
  }
  t.strictSame(pieces('Hello, world!'), ['Hello', ',', ' world', '!'])
})

t.test('the answer quotes the last user message, at most 200 characters of it', async (t) => {
  const messages = [
    { role: 'user', content: 'first' },
    { role: 'assistant', content: 'answer' },
    { role: 'user', content: [{ type: 'text', text: 'last one' }] },
  ]
  t.match(demoAnswer(messages), 'You said: "last one"')
  t.ok(demoAnswer('x'.repeat(10_000)).length < 600)
  t.match(demoAnswer(['a prompt']), 'You said: "a prompt"')
  for (const nothing of [undefined, [], [null], [5], 7]) {
    t.match(demoAnswer(nothing), 'You said nothing')
  }
})

t.test('an embedding has length 1 and depends on the text alone', async (t) => {
  const one = demoEmbedding('text')
  t.strictSame(one, demoEmbedding('text'))
  t.notSame(one, demoEmbedding('other'))
  t.ok(Math.abs(Math.hypot(...one) - 1) < 1e-4)
})
