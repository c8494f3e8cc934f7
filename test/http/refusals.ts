import t from 'tap'
import { GatewayError } from '../../src/errors.ts'
import {
  invalid,
  isObject,
  missing,
  refuseStrangeQuery,
  refuseUnknownKeys,
  unknown,
} from '../../src/http/refusals.ts'

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

void t.test('a misspelt filter of a query is refused, but under /v1', async (t) => {
  const check = (path: string, text: string) => () =>
    refuseStrangeQuery(new URLSearchParams(text), { path, query: ['external_id'] })
  for (const path of ['/admin/accounts', '/api/files', '/account/api/keys']) {
    check(path, 'external_id=cus_1')()
    for (const name of ['externalid', 'External_ID', 'external_id ']) {
      t.throws(check(path, `external_id=cus_1&${name}=cus_1`), unknown(name), `${path}?${name}`)
    }
  }
  check('/v1/models', 'limit=1')()
  check('/account', 'externalid=cus_1')()
})

void t.test('a list is not an object', async (t) => {
  for (const value of [null, [], 'a', 1, undefined]) t.notOk(isObject(value))
  t.ok(isObject({}))
})
