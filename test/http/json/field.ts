import t from 'tap'
import { field, parsed } from '../../../src/http/json/field.ts'

t.test('a field is read from an object, and nothing from other values', (t) => {
  t.equal(field({ a: 1 }, 'a'), 1)
  t.equal(field([5], '0'), 5)
  for (const value of [undefined, null, 1, 'a', true, {}, []]) t.equal(field(value, 'a'), undefined)
  t.end()
})

t.test('invalid JSON is undefined', (t) => {
  t.strictSame(parsed('{"a":[null]}'), { a: [null] })
  for (const text of ['', '{"a"', 'undefined']) t.equal(parsed(text), undefined)
  t.end()
})
