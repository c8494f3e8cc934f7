import t from 'tap'
import { GatewayError } from '../../src/errors.ts'
import { invalid, isObject, missing, refuseUnknownKeys, unknown } from '../../src/http/refusals.ts'

void t.test('a refusal has the path of the bad value', async (t) => {
  t.match(invalid('a[0].b', 'must be a string'), {
    code: 'invalid_parameter',
    param: 'a[0].b',
    message: '"a[0].b" must be a string.',
  })
  t.match(missing('a'), { code: 'missing_parameter', param: 'a', message: '"a" is required.' })
  t.match(unknown('a'), { code: 'unknown_parameter', param: 'a' })
})

void t.test('an unknown field is refused with its path', async (t) => {
  const known = new Set(['a'])
  refuseUnknownKeys({ a: 1 }, { known, at: 'x' })
  const odd: object = JSON.parse('{"a":1,"__proto__":2}') as object
  t.throws(() => refuseUnknownKeys(odd, { known, at: 'x' }), unknown('x.__proto__'))
  t.throws(() => refuseUnknownKeys({ b: 1 }, { known, at: 'x' }), GatewayError)
})

void t.test('a list is not an object', async (t) => {
  for (const value of [null, [], 'a', 1, undefined]) t.notOk(isObject(value))
  t.ok(isObject({}))
})
