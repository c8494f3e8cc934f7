// Requests a minute on routes without a hold, on a real Redis; and those in this process' memory.

import t from 'tap'
import type { GatewayError } from '../../src/errors.ts'
import { createAllowance, createGuard, createRequestRate } from '../../src/accounts/rate.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const refusalOf = (counted: Promise<unknown>): Promise<GatewayError> =>
  counted.then(
    () => t.fail('it was let through') as never,
    (error: GatewayError) => error,
  )

t.test('requests are counted by account, whichever gateway counts', async (t) => {
  const redis = await startRedis(t)
  const counts = [
    createRequestRate((await connectLink(t, redis.socket)).client),
    createRequestRate((await connectLink(t, redis.socket)).client),
  ] as const
  const first = await counts[0]('acct00000001', 2)
  t.match(first, { limit: 2, remaining: 1 })
  t.ok(first.resetMs > 0 && first.resetMs <= 60_000)
  t.match(await counts[1]('acct00000001', 2), { limit: 2, remaining: 0 })
  t.match(await counts[1]('acct00000002', 2), { limit: 2, remaining: 1 }, 'another account')
  const refused = await refusalOf(counts[0]('acct00000001', 2))
  t.equal(refused.code, 'rate_limit_exceeded')
  t.ok((refused.retryAfterMs ?? 0) > 0)
  t.match(refused.limits, { requests: { limit: 2, remaining: 0, resetMs: Number } })
})

t.test('the counter is in the slot of its account and expires by itself', async (t) => {
  const redis = await startRedis(t)
  const { client } = await connectLink(t, redis.socket)
  await createRequestRate(client)('acct00000001', 2)
  const [name = ''] = await client.keys('*')
  t.match(name, /\{acct00000001\}/)
  t.ok((await client.pttl(name)) > 0)
})

t.test('with Redis away it is the ledger that is not available', async (t) => {
  const redis = await startRedis(t)
  const { client } = await connectLink(t, redis.socket)
  const count = createRequestRate(client)
  await redis.kill()
  t.equal((await refusalOf(count('acct00000001', 2))).code, 'ledger_unavailable')
})

t.test('an allowance is used up, comes back evenly, and is never more than it was', async (t) => {
  let nowMs = 0
  const allowance = createAllowance(60, new Map(), () => nowMs)
  allowance.use('a', 59)
  t.equal(allowance.waitMs('a'), 0)
  allowance.use('a', 1)
  t.equal(allowance.waitMs('a'), 1000)
  t.equal(allowance.waitMs('b'), 0, 'another key')
  nowMs = 400
  t.equal(allowance.waitMs('a'), 600)
  nowMs = 1000
  t.equal(allowance.waitMs('a'), 0)
  nowMs = 1_000_000
  allowance.use('a', 61)
  t.equal(allowance.waitMs('a'), 2000)
})

t.test('when new keys come without end, the oldest is forgotten', async (t) => {
  const allowance = createAllowance(1, new Map(), () => 0)
  for (const key of ['old', 'kept']) allowance.use(key, 1)
  for (let i = 0; i < 9999; i++) {
    allowance.use(`new${i}`, 1)
    if (i === 5000) allowance.use('kept', 0)
  }
  t.equal(allowance.waitMs('old'), 0)
  t.ok(allowance.waitMs('kept') > 0)
  t.ok(allowance.waitMs('new9998') > 0)
})

t.test('the guard lets a number of failures pass, then says how long to wait', async (t) => {
  const guard = createGuard(2)
  t.same([guard('10.0.0.1'), guard('10.0.0.1')], [0, 0])
  const waitMs = guard('10.0.0.1')
  t.ok(waitMs > 0 && waitMs <= 30_000, `${waitMs}`)
  t.equal(guard('10.0.0.2'), 0, 'another address')
})

t.test('IPv6 addresses count by their network', async (t) => {
  const guard = createGuard(2)
  for (const address of ['2001:db8:1:2::1', '2001:db8:1:2:ffff::']) t.equal(guard(address), 0)
  t.ok(guard('2001:db8:1:2:3:4:5:6') > 0)
  t.equal(guard('2001:db8:1:3::1'), 0)
})
