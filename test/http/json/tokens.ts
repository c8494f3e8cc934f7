// Tokens of JSON are those that JSON.parse sees; for other texts it gives some tokens, without an exception.

import t from 'tap'
import { JsonTokens, decoded } from '../../../src/http/json/tokens.ts'

function tokensOf(text: string): string[] {
  const bytes = Buffer.from(text)
  const tokens = new JsonTokens(bytes)
  const all: string[] = []
  for (let kind = tokens.next(); kind !== 'end'; kind = tokens.next()) {
    all.push(`${kind} ${bytes.toString('utf8', tokens.start, tokens.end)}`)
  }
  return all
}

t.test('each kind of token is recognised, and keys are told from strings', async (t) => {
  t.strictSame(tokensOf(' { "a" : [ 1, -2.5e3 ,true, null, "b" ] }\n'), [
    'open {',
    'key a',
    'open [',
    'number 1',
    'number -2.5e3',
    'word true',
    'word null',
    'string b',
    'close ]',
    'close }',
  ])
})

t.test('strings end at their own quote, short and long', async (t) => {
  for (const length of [0, 1, 63, 64, 65, 1000]) {
    for (const tail of ['', '\\"', '\\\\', '\\\\\\"']) {
      const said = 'x'.repeat(length) + tail
      t.strictSame(tokensOf(`["${said}","y"]`).slice(1, 3), [`string ${said}`, 'string y'])
    }
  }
})

t.test('the depth is tracked, and only the requested part is read', async (t) => {
  const tokens = new JsonTokens(Buffer.from('[[{}]]x'), { from: 1, to: 5 })
  const depths: number[] = []
  while (tokens.next() !== 'end') depths.push(tokens.depth)
  t.strictSame(depths, [1, 2, 1, 0])
  t.equal(tokens.count, 4)
})

t.test('nothing throws, and every text ends', async (t) => {
  for (const text of ['', '"', '"a', '"a\\', '{:,', ']]', '\u0000', 'nul', '{"a"', '"a":']) {
    t.ok(tokensOf(text).length <= 3, text)
  }
})

t.test('a string is decoded, or returned as it is', async (t) => {
  const text = Buffer.from('a\\u00e9\\n|b\\q')
  t.equal(decoded(text, 0, 9), 'aé\n')
  t.equal(decoded(text, 10, 13), 'b\\q')
})
