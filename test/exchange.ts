// src/exchange.ts: the parts that are more than types.

import t from 'tap'
import { answering, json, refOf } from '../src/exchange.ts'
import type { Exchange } from '../src/exchange.ts'

t.test('a caller has an account, and without one the key is missing', async (t) => {
  t.equal(refOf({ caller: { ref: 'aaaaaaaaaaaa', hmac: '', scope: '' } }), 'aaaaaaaaaaaa')
  t.throws(() => refOf({}), { code: 'missing_api_key' })
})

t.test(
  'an answer of JSON is 200 without headers of its own, where no other are said',
  async (t) => {
    t.strictSame(json({ a: 1 }), { status: 200, headers: {}, body: '{"a":1}' })
    const headers = { Location: '/b' }
    t.strictSame(json({ a: 1 }, 201, headers), { status: 201, headers, body: '{"a":1}' })
  },
)

t.test('a route without hooks answers of its exchange', async (t) => {
  const begin = answering(async ({ id }) => ({ status: 200, body: id }))
  const { serve, ...hooks } = begin(Object({ id: 'req_1' }) as Exchange)
  t.same(await serve(Object(undefined)), { status: 200, body: 'req_1' })
  t.same(hooks, {})
})
