// Requests a minute on routes without a hold, on a real Redis; and those in this process' memory.

import t from 'tap'
import type { GatewayError } from '../../src/errors.ts'
import { createRate, createGuard, createRequestRate } from '../../src/accounts/rate.ts'
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

t.test(
  'a window begins at its first request, and later requests do not move its end',
  async (t) => {
    const redis = await startRedis(t)
    const { client } = await connectLink(t, redis.socket)
    const count = createRequestRate(client)
    t.match(await count('acct00000001', 9), { remaining: 8, resetMs: 60_000 })
    const [name = ''] = await client.keys('*')
    await client.pexpire(name, 20_000)
    const [first, later] = [Number(await client.get(name)), await count('acct00000001', 9)]
    t.equal(later.remaining, 7)
    t.equal(await client.get(name), `${first + 1}`, 'the number has the same end')
    t.ok((await client.pttl(name)) <= 20_000)
    const nowMs = Date.now()
    await client.set(name, first - 40 * 2 ** 21, 'KEEPTTL')
    const { resetMs } = await count('acct00000001', 9)
    t.ok(resetMs <= 21_000 && resetMs >= 20_000 - (Date.now() - nowMs) - 5000, `${resetMs}`)
    await client.set(name, '5')
    t.match(await count('acct00000001', 9), { remaining: 8, resetMs: 60_000 }, 'no counter stays')
    t.ok((await client.pttl(name)) > 0)
  },
)

t.test('however many requests there are, the end of their window stays', async (t) => {
  const redis = await startRedis(t)
  const { client } = await connectLink(t, redis.socket)
  const count = createRequestRate(client)
  await count('acct00000001', 9)
  const [name = ''] = await client.keys('*')
  const most = Number(await client.get(name)) + 2 ** 21 - 4
  await client.set(name, most, 'KEEPTTL')
  for (let i = 0; i < 4; i++) {
    t.equal((await refusalOf(count('acct00000001', 9))).code, 'rate_limit_exceeded')
  }
  t.equal(await client.get(name), `${most + 1}`)
})

t.test('with Redis away it is the ledger that is not available', async (t) => {
  const redis = await startRedis(t)
  const { client } = await connectLink(t, redis.socket)
  const count = createRequestRate(client)
  await redis.kill()
  t.equal((await refusalOf(count('acct00000001', 2))).code, 'ledger_unavailable')
})

t.test('units are used up, come back evenly, and are never more than they were', async (t) => {
  let nowMs = 0
  const rate = createRate(60, new Map(), () => nowMs)
  const waitMs = (key: string) => rate.refusal(key, 'Too many.')?.retryAfterMs
  rate.use('a', 59)
  t.equal(waitMs('a'), undefined)
  rate.use('a', 1)
  t.equal(waitMs('a'), 1000)
  t.equal(waitMs('b'), undefined, 'another key')
  nowMs = 400
  t.equal(waitMs('a'), 600)
  nowMs = 1000
  t.equal(waitMs('a'), undefined)
  nowMs = 1_000_000
  rate.use('a', 61)
  t.equal(waitMs('a'), 2000)
})

t.test('who takes the last unit gets it, and the next one is told how long to wait', async (t) => {
  const rate = createRate(1, new Map(), () => 0)
  rate.take('a', 'Too many of these.')
  t.throws(() => rate.take('a', 'Too many of these.'), {
    code: 'rate_limit_exceeded',
    message: 'Too many of these. Wait as Retry-After says.',
    retryAfterMs: 60_000,
  })
  t.equal(rate.refusal('a', '')?.retryAfterMs, 60_000, 'a refused one is not counted')
  t.equal(rate.refusal('b', ''), undefined)
})

t.test('when new keys come without end, the oldest is forgotten', async (t) => {
  const rate = createRate(1, new Map(), () => 0)
  for (const key of ['old', 'kept']) rate.use(key, 1)
  for (let i = 0; i < 9999; i++) {
    rate.use(`new${i}`, 1)
    if (i === 5000) rate.use('kept', 0)
  }
  t.equal(rate.refusal('old', ''), undefined)
  t.ok(rate.refusal('kept', ''))
  t.ok(rate.refusal('new9998', ''))
})

t.test('the guard lets a number of failures pass, then says how long to wait', async (t) => {
  const guard = createGuard(2, { what: 'Too many.', levels: new Map() })
  t.same([guard('10.0.0.1'), guard('10.0.0.1')], [undefined, undefined])
  const { code, retryAfterMs = 0 } = guard('10.0.0.1') ?? {}
  t.equal(code, 'rate_limit_exceeded')
  t.ok(retryAfterMs > 0 && retryAfterMs <= 30_000, `${retryAfterMs}`)
  t.equal(guard('10.0.0.2'), undefined, 'another address')
})

t.test('IPv6 addresses count by their network', async (t) => {
  const guard = createGuard(2, { what: 'Too many.', levels: new Map() })
  for (const address of ['2001:db8:1:2::1', '2001:db8:1:2:ffff::']) {
    t.equal(guard(address), undefined)
  }
  t.ok(guard('2001:db8:1:2:3:4:5:6'))
  t.equal(guard('2001:db8:1:3::1'), undefined)
})
