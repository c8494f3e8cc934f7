// What is shown of a backend's refusal: its sentence, on one line, without the key or a part of it.

import t from 'tap'
import { saidBy, wordsIn } from '../../src/backend/said.ts'
import { targetOf } from '../fixtures/target.ts'

const key = 'sk-proj-abcdEFGH1234wxyz'
const target = targetOf('https://backend.internal/v1', { key, headers: { 'x-team': 'chat' } })
const words = (body: string) => wordsIn(Buffer.from(body), target)
const wordsOf = (message: string) => words(JSON.stringify({ error: { message } }))

const said = (text: string) => saidBy(Buffer.from(text), target)

t.test('the sentence is found in every shape that servers send', async (t) => {
  for (const body of [
    '{"error":{"message":"No such model"}}',
    '{"error":"No such model"}',
    '{"detail":"No such model"}',
    '{"message":"No such model"}',
    'No such model',
  ]) {
    t.equal(said(body), 'No such model', body)
    t.equal(words(body), 'No such model', body)
  }
  t.equal(said('<html><body>nginx</body></html>'), '')
  t.equal(said('{"detail":[{"msg":"x"}]}'), '{"detail":[{"msg":"x"}]}')
  const unsound = ['{"prompt": "a prompt', 'data: {"prompt":"a prompt"}', '{"a":1}\n{"b":2}']
  const others = ['', '<html>nginx</html>', '{"detail":[{"input":"a prompt"}]}', '{}', '[1]']
  for (const body of [...others, ...unsound]) {
    t.equal(words(body), '', body)
  }
})

t.test('it is one line of at most 300 characters', async (t) => {
  t.equal(wordsOf('slow\r\n\tdown\u001b[2J\u202e  now\u0000 '), 'slow down [2J now')
  t.equal(wordsOf('für 10 €'), 'für 10 €')
  t.equal(wordsOf(`${'a'.repeat(299)}😀`), `${'a'.repeat(299)}\ufffd`)
  t.equal(wordsOf('b '.repeat(100_000)).length, 300)
})

t.test('no word of it quotes the key, whole or in part', async (t) => {
  for (const quoted of [
    key,
    'sk-proj-********wxyz',
    'sk-...wxyz',
    'sk-…xyz',
    'sk***yz',
    'sk••••yz',
    '****',
    '...yz',
    'sk-proj-abcd',
    '(sk-proj)',
    "'1234wxyz'",
    'wxyz',
  ]) {
    t.equal(
      wordsOf(`Incorrect API key provided: ${quoted} at once`),
      'Incorrect API key provided: *** at once',
    )
  }
  t.equal(wordsOf(`${'a'.repeat(1990)} ${key}`.slice(0, 2005)).includes('sk-'), false)
  t.equal(wordsOf('Please wait... Limit 3, used 3. sk-'), 'Please wait... Limit 3, used 3. sk-')
})

t.test('without a key, nothing of it is left out but what providers hide themselves', async (t) => {
  const body = Buffer.from('{"error":"no chat for sk-proj-abcd, sk-***cd"}')
  t.equal(wordsIn(body, targetOf('http://b/v1', {})), 'no chat for sk-proj-abcd, ***')
})
