// Requests a minute on routes without a hold, on a real Redis; and the guard against guessing.

import t from 'tap'
import type { GatewayError } from '../src/errors.ts'
import { createGuard, createRequestRate } from '../src/rate.ts'
import { connectLink } from './fixtures/ledger.ts'
import { startRedis } from './fixtures/redis-server.ts'

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
  t.match(refused.headers, {
    'x-ratelimit-limit-requests': '2',
    'x-ratelimit-remaining-requests': '0',
  })
})

t.test('the counter lies in the slot of its account and ends by itself', async (t) => {
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

t.test(
  'the guard lets so many failures pass, then says how long to wait; by address',
  async (t) => {
    const guard = createGuard(2)
    const waits: number[] = []
    for (let i = 0; i < 5; i++) {
      waits.push(guard.fail('10.0.0.1'))
      // What it counted is known a turn later.
      await Promise.resolve()
      await new Promise(setImmediate)
    }
    t.same(waits.slice(0, 3), [0, 0, 0])
    t.ok((waits[3] ?? 0) > 0 && (waits[3] ?? 0) <= 60_000)
    t.ok((waits[4] ?? 0) > 0)
    t.equal(guard.fail('10.0.0.2'), 0, 'another address')
  },
)
