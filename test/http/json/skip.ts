import t from 'tap'
import { skipSpace, skipString, skipValue } from '../../../src/http/json/skip.ts'

const end = (text: string) => skipValue(Buffer.from(`${text},"next"`), 0)

t.test('the end of every value is found', async (t) => {
  const values = [
    'null',
    '-1.5E+10',
    '12345678901234567890',
    '""',
    '"a\\"b\\\\"',
    `"${'a'.repeat(1000)}"`,
    '[]',
    '{}',
    '[[{"]":"}"}],"\\\\"]',
    '{"a":[1,{"b":"]"}],"c":"{"}',
  ]
  for (const value of values) t.equal(end(value), value.length, value)
})

t.test('a string ends at its first bare quote, wherever escapes are', async (t) => {
  for (let length = 50; length < 140; length++) {
    for (const tail of ['', '\\"', '\\\\', '\\\\\\"', '\\"\\"\\"', '\\u0022']) {
      const value = `"${'a'.repeat(length)}${tail}"`
      t.equal(skipString(Buffer.from(`${value}"`), 0), value.length, value)
    }
  }
  const quotes = `"${'\\"'.repeat(1000)}"`
  t.equal(skipString(Buffer.from(quotes), 0), quotes.length)
})

t.test('an unfinished value is invalid_json', async (t) => {
  for (const text of ['', '"', '"a', '"a\\"', `"${'a'.repeat(200)}`, `"${'a'.repeat(200)}\\"`]) {
    t.throws(() => skipValue(Buffer.from(text), 0), { code: 'invalid_json' }, text)
  }
  for (const text of ['[', '{', '[}', '{]', '[[]', '{"a":[}]', '["a]', '@', ']', ':']) {
    t.throws(() => skipValue(Buffer.from(text), 0), { code: 'invalid_json' }, text)
  }
})

t.test('63 levels in a body are read, one more is not', async (t) => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  t.equal(end(nested(63)), 126)
  t.throws(() => end(nested(64)), { code: 'invalid_json', message: /64 levels/ })
  t.throws(() => end('['.repeat(1_000_000)), { code: 'invalid_json' })
})

t.test('only the white space of JSON is skipped', async (t) => {
  t.equal(skipSpace(Buffer.from(' \t\r\n\f'), 0), 4)
  t.equal(skipSpace(Buffer.from('\u00a0'), 0), 0)
})
