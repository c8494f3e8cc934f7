// Who calls, and how often, in one script: what is counted, what is refused, and when Redis is asked for the time.

import t from 'tap'
import type { Test } from 'tap'
import { identifyCounted } from '../../src/ledger/caller.ts'
import { createRedisClock } from '../../src/ledger/clock.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { createRequestRate } from '../../src/accounts/rate.ts'
import { keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import {
  connectLink,
  makeAccount,
  moveLeases,
  newHoldId,
  openAdmission,
  openLedger,
  reapingStarted,
  request,
} from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const server = await startRedis(t)

interface Fields {
  readonly account?: object
  readonly key?: object
}

async function open(t: Test, fields: Fields = {}) {
  const link = await connectLink(t, server.socket)
  const caller = await makeAccount(link, fields)
  const { ref, hmac } = caller
  const times: number[] = []
  const clock = createRedisClock()
  let reaped = 0
  const scripts = createScripts({
    link,
    library: ledgerScripts,
    onReply: (_name, _seconds, nowMs) => void times.push(nowMs),
  })
  return {
    link,
    redis: link.client,
    ref,
    caller,
    clock,
    scripts,
    /** What the replies said the time was. */
    times,
    key: keys.key(ref, hmac),
    counter: keys.requests(ref),
    identify: (more: object = {}) =>
      identifyCounted(
        { ...caller, ...more },
        { scripts, clock, leaseMs: 900, onReaped: (count) => void (reaped += count) },
      ),
    reaped: () => reaped,
  }
}

const nowS = () => Math.floor(Date.now() / 1000)

t.test('a caller is known, and each request is counted once', async (t) => {
  const { redis, ref, identify, key, counter } = await open(t, {
    account: { plan: 'p', owed: 7 },
    key: { models: 'm n', tpm: 50 },
  })
  const first = await identify()
  t.strictSame(first, {
    accountId: `acct_${ref}`,
    plan: 'p',
    keyId: `key_${ref}`,
    models: ['m', 'n'],
    owed: 7,
    tokensPerMinute: 50,
    requests: { count: 1, resetMs: 60_000 },
  })
  await redis.hdel(key, 'tpm', 'models')
  t.match(await identify(), {
    tokensPerMinute: undefined,
    models: ['*'],
    requests: { count: 2, resetMs: Number },
  })
  t.match(await createRequestRate(redis)(ref, 9), { remaining: 6 }, 'one count for all of them')
  t.equal((await identify()).requests?.count, 4)
  const left = await redis.pttl(counter)
  t.ok(left > 0 && left <= 60_000)
})

t.test('a refused caller counts nothing', async (t) => {
  const refused = async (code: string, fields: Fields, more: object = {}) => {
    const { redis, counter, identify, key, ref } = await open(t, fields)
    const error = await identify(more).catch((caught: unknown) => caught)
    const isKnown = code !== 'invalid_api_key'
    const caller = isKnown ? { accountId: `acct_${ref}`, keyId: `key_${ref}` } : undefined
    t.match(error, { code, caller })
    t.equal(await redis.exists(counter), 0, `${code} counts nothing`)
    t.equal(await redis.hget(key, 'last_used_at'), null)
  }
  await refused('invalid_api_key', {}, { hmac: 'guess' })
  await refused('invalid_api_key', {}, { ref: 'acct99999999' })
  await refused('insufficient_scope', {}, { scope: 'files' })
  await refused('account_suspended', { account: { status: 'suspended' } })
  await refused('api_key_revoked', { key: { revoked_at: nowS() } })
  await refused('api_key_expired', { key: { expires_at: nowS() } })
  await refused('api_key_revoked', { key: { revoked_at: 1 } }, { scope: 'files' })
})

t.test('a key with an end works until then, also in a window that has begun', async (t) => {
  const { redis, identify, key, counter } = await open(t, { key: { expires_at: nowS() + 3600 } })
  await identify()
  t.equal((await identify()).requests?.count, 2)
  const before = await redis.get(counter)
  for (const [field, code] of [
    ['expires_at', 'api_key_expired'],
    ['revoked_at', 'api_key_revoked'],
  ] as const) {
    await redis.hset(key, field, nowS())
    await t.rejects(identify(), { code })
  }
  t.equal(await redis.get(counter), before)
})

t.test('the time is asked for where something depends on it', async (t) => {
  const { redis, identify, times, clock, key, counter } = await open(t)
  const asked = async (why: string, isAsked: boolean) => {
    await identify()
    t.equal((times.at(-1) ?? 0) > 0, isAsked, why)
  }
  await asked('a new window', true)
  await asked('the clock is not set', true)
  clock.learn(Date.now())
  await asked('nothing depends on it', false)
  await redis.hdel(key, 'last_used_at')
  await asked('the key is used for the first time in this window', true)
  t.ok(nowS() - Number(await redis.hget(key, 'last_used_at')) < 5)
  await asked('that was noted', false)
  await redis.hset(key, 'last_used_at', nowS() - 70)
  await asked('it was used in an earlier window', true)
  t.ok(nowS() - Number(await redis.hget(key, 'last_used_at')) < 5)
  await redis.del(counter)
  await asked('the window has ended', true)
  await asked('nothing depends on it', false)
  await redis.hset(key, 'expires_at', nowS() + 3600)
  await asked('the key has an end', true)
})

t.test("the end of a window is told by Redis' clock", async (t) => {
  const { identify, clock } = await open(t)
  await identify()
  clock.learn(Date.now() + 20_000)
  const { resetMs = Infinity } = (await identify()).requests ?? {}
  t.ok(resetMs <= 41_000 && resetMs > 20_000, `${resetMs}`)
  clock.learn(Date.now() + 200_000)
  t.equal((await identify()).requests?.resetMs, 0)
})

t.test('a ledger keeps its clock where a reply has no time', async (t) => {
  const { redis, caller, counter } = await open(t)
  const ledger = await openLedger(t, { link: await connectLink(t, server.socket) })
  for (const count of [1, 2]) {
    t.equal((await ledger.identifyCounted(caller)).requests?.count, count)
  }
  await redis.set(counter, Number(await redis.get(counter)) - 40 * 2 ** 21, 'KEEPTTL')
  const { resetMs = Infinity } = (await ledger.identifyCounted(caller)).requests ?? {}
  t.ok(resetMs <= 21_000, `${resetMs}`)
})

t.test('while the memory of Redis is full, the caller is known and not counted', async (t) => {
  const { redis, identify, ref } = await open(t)
  t.teardown(() => redis.config('SET', 'maxmemory', '0'))
  await identify()
  await redis.config('SET', 'maxmemory', '1')
  t.match(await identify(), { keyId: `key_${ref}`, requests: undefined })
  await t.rejects(createRequestRate(redis)(ref, 9), { code: 'ledger_unavailable' })
  await redis.config('SET', 'maxmemory', '0')
  t.match(await identify(), { requests: { count: 2 } })
})

t.test(
  'a debt is reported, the plan is remembered, and a shut gate lets nobody pass',
  async (t) => {
    const { ref, caller, scripts } = await open(t, { account: { plan: 'p', owed: 3 } })
    const owing: string[] = []
    const admission = openAdmission({ scripts, leaseMs: 1000, onOwing: (who) => owing.push(who) })
    t.equal((await admission.identifyCounted(caller)).keyId, `key_${ref}`)
    t.strictSame(owing, [ref])
    const shut = openAdmission({
      scripts,
      leaseMs: 1000,
      gate: {
        pass() {
          throw new Error('shut')
        },
      },
    })
    await t.rejects(shut.identifyCounted(caller), { message: 'shut' })
  },
)

t.test('who calls after a gateway died gives back what its holds reserved', async (t) => {
  const { link, redis, ref, identify, scripts, caller, reaped } = await open(t, {
    account: { granted: 100 },
  })
  await reapingStarted(link)
  const admission = openAdmission({ scripts, leaseMs: 900 })
  const hold = await admission.admit(request(caller, 40))
  const reserved = () => redis.hget(keys.account(ref), 'reserved')
  await identify()
  t.same([await reserved(), reaped()], ['40', 0], 'while its lease lasts')
  await moveLeases(link, ref, { to: 1, of: [hold.id] })
  t.match(await identify(), { requests: { count: 2 } }, 'counted once')
  t.same([await reserved(), reaped()], ['0', 1])
})

t.test(
  'holds that nobody renews yet are looked at once, after a start of Redis, too',
  async (t) => {
    const { redis, ref, scripts, caller } = await open(t, { account: { reserved: 5 } })
    const row = `5 0 0 0 0 key_${ref} m {} 0000000000001`
    await redis.hset(keys.holdRows(ref), newHoldId(), row)
    const looks = async () =>
      Number(/hscan:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0)
    const before = await looks()
    const clock = createRedisClock()
    const parts = { scripts, clock, leaseMs: 1e9, onReaped: () => t.fail('it was reaped') }
    for (const _ of [1, 2, 3]) await identifyCounted(caller, parts)
    t.equal((await looks()) - before, 1)
  },
)
