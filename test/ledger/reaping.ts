// Reaping as a script of its own: who causes it, how often, and that each hold is charged once, whoever reaps it.

import t from 'tap'
import type { Test } from 'tap'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { sendOrder, settleOrder } from '../../src/ledger/orders.ts'
import { reap } from '../../src/ledger/reaping.ts'
import { accountKeys, keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import {
  connectLink,
  deadlineOf,
  moveLeases,
  newHoldId,
  openAdmission,
  openFor,
  reapingStarted,
  request,
  used,
} from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const server = await startRedis(t)
const leaseMs = 900

/** An account with so many tokens, and a gateway without timers that notes its flights. `expire` makes holds of a dead gateway. */
async function open(t: Test, tokens: number) {
  const opened = await openFor(t, tokens, { on: server })
  const { link, ref } = opened
  await reapingStarted(link)
  const gateway = (on = link) => {
    const flights: string[] = []
    const onReply = (name: string) => void flights.push(name)
    const scripts = createScripts({ link: on, library: ledgerScripts, onReply })
    const counts: number[] = []
    const parts = { scripts, leaseMs, onReaped: (count: number) => void counts.push(count) }
    return {
      flights,
      counts,
      reap: (ref: string) => reap(parts, ref),
      admission: openAdmission(parts),
    }
  }
  const expire = async (count: number, used = 0) => {
    const ids = Array.from({ length: count }, () => newHoldId())
    const row = `1 ${used} 7 0 ${used} key_${ref} m {} 0000000000001`
    const account = keys.account(ref)
    await link.client.hset(keys.holdRows(ref), Object.fromEntries(ids.map((id) => [id, row])))
    await link.client.hincrby(account, 'reserved', count)
    await link.client.hincrby(account, `open:key_${ref}`, count)
    await link.client.hincrby(account, 'open', count)
    await link.client.hset(account, 'next_expiry', 0)
  }
  const openHolds = () => link.client.hlen(keys.holdRows(ref))
  const sound = async () => t.same((await opened.ledger.audit(ref)).differences, [], 'it adds up')
  return { ...opened, ...gateway(), gateway, expire, openHolds, sound }
}

t.test('a hundred holds end in one call', async (t) => {
  const { ref, reap, counts, expire, openHolds, sound } = await open(t, 1000)
  await expire(250, 2)
  for (const left of [150, 50, 0, 0]) {
    await reap(ref)
    t.equal(await openHolds(), left)
  }
  t.same(counts, [100, 100, 50], 'what was not reaped is not reported')
  await expire(100)
  await reap(ref)
  t.equal(await openHolds(), 0)
  await sound()
})

t.test('while Redis has run for less than a lease, nothing is reaped', async (t) => {
  const { link, ref, expire, openHolds } = await open(t, 10)
  await expire(1)
  const scripts = createScripts({ link, library: ledgerScripts })
  const onReaped = () => t.fail('it was reaped')
  await reap({ scripts, leaseMs: 1e9, onReaped }, ref)
  t.equal(await openHolds(), 1)
})

t.test('a request calls it once, and goes on with the holds that are left', async (t) => {
  const { caller, admission, flights, expire, openHolds } = await open(t, 1000)
  await expire(250)
  await admission.identify(caller)
  t.same(flights.splice(0), ['identify', 'reap', 'identify'])
  await admission.admit(request(caller, 10))
  t.same(flights.splice(0), ['admit', 'reap', 'admit'])
  t.equal(await openHolds(), 51, 'fifty expired ones and its own')
})

t.test(
  'a request without a hold looks for expired holds only where something is reserved',
  async (t) => {
    const { link, caller, ref, admission, flights, expire, openHolds } = await open(t, 1000)
    const looks = async () =>
      Number(/hscan:calls=(\d+)/.exec(await link.client.info('commandstats'))?.[1] ?? 0)
    const before = await looks()
    await admission.identify(caller)
    t.equal(await looks(), before)
    // A hold that reserved nothing, because its model is free, is left to whoever makes the next one.
    await expire(1)
    await link.client.hset(keys.account(ref), 'reserved', 0)
    await link.client.hset(
      keys.holdRows(ref),
      (await link.client.hkeys(keys.holdRows(ref)))[0] ?? '',
      `0 0 7 0 0 key_${ref} m {} 0000000000001`,
    )
    await admission.identify(caller)
    t.same(flights.splice(0), ['identify', 'identify'])
    await admission.admit(request(caller, 10))
    t.same(flights.splice(0), ['admit', 'reap', 'admit'])
    t.equal(await openHolds(), 1, 'only its own')
    await expire(1)
    await admission.identify(caller)
    t.same(flights, ['identify', 'reap', 'identify'])
  },
)

t.test('a request that lacks money calls it as often as that may help', async (t) => {
  const { caller, admission, flights, expire, openHolds } = await open(t, 350)
  await expire(350)
  t.equal((await admission.admit(request(caller, 150))).amount, 150)
  t.same(flights.splice(0), ['admit', 'reap', 'admit', 'reap', 'admit'])
  t.equal(await openHolds(), 151)
  const all = await admission.admit(request(caller, 200, { min: 1 }))
  t.equal(all.amount, 200, 'also one that could go on with less')
  t.equal(flights.splice(0).length, 5)
  await t.rejects(admission.admit(request(caller, 1)), { code: 'insufficient_balance' })
  t.same(flights, ['admit', 'admit'], 'but not when all are reaped')
})

t.test('a look shows an account without any expired hold', async (t) => {
  const { ref, admission, flights, expire } = await open(t, 1000)
  await expire(150)
  t.equal((await admission.look(ref)).reserved, 0)
  t.same(flights, ['identify', 'reap', 'identify', 'reap', 'identify'])
})

t.test('who is refused makes Redis reap nothing', async (t) => {
  const { link, caller, ref, admission, flights, expire, openHolds } = await open(t, 10)
  await expire(1)
  const stranger = { ...caller, hmac: 'unknown' }
  const refused = async (who: typeof caller, code: string) => {
    await t.rejects(admission.identify(who), { code })
    await t.rejects(admission.admit(request(who, 1)), { code })
  }
  await refused(stranger, 'invalid_api_key')
  await link.client.hset(keys.key(ref, caller.hmac), 'revoked_at', 1)
  await refused(caller, 'api_key_revoked')
  t.same(flights, ['identify', 'admit', 'identify', 'admit'])
  t.equal(await openHolds(), 1)
})

t.test('two gateways that reap at once charge each hold once', async (t) => {
  const { caller, ref, gateway, expire, openHolds, sums, sound } = await open(t, 1000)
  const gateways = [gateway(), gateway(await connectLink(t, server.socket))]
  await expire(150, 2)
  const holds = await Promise.all(
    gateways.map(({ admission }) => admission.admit(request(caller, 100))),
  )
  t.same(
    holds.map(({ amount }) => amount),
    [100, 100],
  )
  await Promise.all(gateways.map(({ reap }) => reap(ref)))
  const counts = gateways.flatMap(({ counts }) => counts)
  t.equal(
    counts.reduce((sum, count) => sum + count, 0),
    150,
  )
  t.equal(await openHolds(), 2)
  t.match(await sums(), { balance: 700, reserved: 200 })
  await sound()
})

t.test('after a lost reply the holds are reaped, and charged once', async (t) => {
  const { link, caller, gateway, expire, sums, sound } = await open(t, 100)
  await expire(1, 30)
  const evalsha = link.client.evalsha.bind(link.client) as (...words: unknown[]) => Promise<unknown>
  let calls = 0
  const client = {
    async evalsha(...words: unknown[]) {
      const reply = await evalsha(...words)
      if (++calls === 2) throw new Error('Connection is closed.')
      return reply
    },
  }
  const { admission, counts } = gateway(Object({ client }))
  await t.rejects(admission.admit(request(caller, 70)), { code: 'ledger_unavailable' })
  t.match(await sums(), { balance: 70, reserved: 0 })
  t.equal((await admission.admit(request(caller, 70))).amount, 70)
  t.equal(calls, 3)
  t.same(counts, [], 'nobody has counted it')
  await sound()
})

t.test('a Redis that asks for more without end is ledger_unavailable', async (t) => {
  const { caller } = await open(t, 0)
  for (const word of ['reap', 'renew']) {
    let calls = 0
    const evalsha = async () => (++calls % 2 === 1 ? [word, 1] : ['ok', 1, 0, 1])
    const scripts = createScripts({ link: Object({ client: { evalsha } }), library: ledgerScripts })
    const admission = openAdmission({ scripts, leaseMs })
    await t.rejects(admission.admit(request(caller, 1)), { code: 'ledger_unavailable' })
    t.equal(calls, 240)
  }
})

t.test('an account that has no hold gets no row', async (t) => {
  const { link, reap } = await open(t, 0)
  await reap('nobody')
  const [account = ''] = accountKeys('nobody')
  t.equal(await link.client.exists(account), 0)
})

/** An account, and how often its rows were looked at. */
async function openLooked(t: Test) {
  const opened = await open(t, 100_000)
  const { link, ref } = opened
  const looks = async () =>
    Number(/hscan:calls=(\d+)/.exec(await link.client.info('commandstats'))?.[1] ?? 0)
  const field = async (name: string) => Number(await link.client.hget(keys.account(ref), name))
  return { ...opened, looks, field }
}

t.test('while no lease can end, nobody looks at the holds', async (t) => {
  const { link, caller, ref, looks, field, sound } = await openLooked(t)
  const scripts = createScripts({ link, library: ledgerScripts })
  const [long, short] = [60_000, 20_000].map((leaseMs) => openAdmission({ scripts, leaseMs }))
  if (!long || !short) throw new Error('unreachable')
  const hold = await long.admit(request(caller, 1))
  const before = await looks()
  for (let n = 0; n < 5; n++) await long.admit(request(caller, 1))
  await t.rejects(long.admit(request(caller, 1e6, { min: 1e6 })), { code: 'insufficient_balance' })
  t.equal(await looks(), before)
  t.equal(await field('next_expiry'), await deadlineOf(link, ref, hold.id))
  const brief = await short.admit(request(caller, 1))
  t.equal(await field('next_expiry'), await deadlineOf(link, ref, brief.id), 'a shorter lease')
  t.equal(await looks(), before)
  t.equal(await field('open'), 7)
  await sound()
})

t.test('who looks at many holds notes it, also when refused', async (t) => {
  const { link, caller, ref, expire, looks, field, openHolds } = await openLooked(t)
  await expire(1200)
  const ids = await link.client.hkeys(keys.holdRows(ref))
  const later = Date.now() + 3_600_000
  await moveLeases(link, ref, { to: later, of: ids })
  await link.client.hset(keys.account(ref), 'open', 3)
  const scripts = createScripts({ link, library: ledgerScripts })
  const admission = openAdmission({ scripts, leaseMs })
  const before = await looks()
  for (let n = 0; n < 9; n++)
    await t.rejects(admission.admit(request(caller, 1e6, { min: 1e6 })), {
      code: 'insufficient_balance',
    })
  t.ok((await looks()) - before <= 3, 'of five hundred rows each, once')
  t.equal(await field('next_expiry'), later)
  t.equal(await field('open'), 1200, 'a wrong count is mended')
  await moveLeases(link, ref, { to: 1, of: ids.slice(700, 701) })
  await admission.admit(request(caller, 1))
  t.equal(await openHolds(), 1200, 'the one that had expired is found among all')
  t.equal(await field('open'), 1200)
})

t.test('a look mends a wrong count also where no hold is open', async (t) => {
  const { link, caller, ref, ledger, admission, field, sound } = await openLooked(t)
  const hold = await admission.admit(request(caller, 10))
  await ledger.settle(hold, used(10))
  // As after a settlement by a gateway of an earlier version.
  await link.client.hset(keys.account(ref), { next_expiry: 0, open: 1 })
  await admission.look(ref)
  t.equal(await field('open'), 0)
  await sound()
})

t.test("when Redis' clock has gone back, a renewed lease is still looked at in time", async (t) => {
  const { link, caller, ref, field } = await openLooked(t)
  const scripts = createScripts({ link, library: ledgerScripts })
  const hold = await openAdmission({ scripts, leaseMs: 60_000 }).admit(request(caller, 1))
  await link.client.hset(keys.account(ref), 'next_expiry', Date.now() + 3_600_000)
  await scripts.run('checkpoint', accountKeys(ref), ['60000', `${hold.id} 0 0 0 0`])
  t.equal(await field('next_expiry'), await deadlineOf(link, ref, hold.id))
})

t.test('holds of an earlier version keep their leases, and are reaped or settled', async (t) => {
  const { link, caller, ref, reap, counts, openHolds, field, sound } = await openLooked(t)
  const scripts = createScripts({ link, library: ledgerScripts })
  const admission = openAdmission({ scripts, leaseMs })
  const holds = [
    await admission.admit(request(caller, 10)),
    await admission.admit(request(caller, 10)),
  ]
  const leases = `{${ref}}:holds`
  for (const { id } of holds) {
    const row = (await link.client.hget(keys.holdRows(ref), id)) ?? ''
    await link.client.hset(keys.holdRows(ref), id, row.slice(0, -14))
    await link.client.zadd(leases, Date.now() + 3_600_000, id)
  }
  await link.client.hset(keys.account(ref), { next_expiry: 0, open: 0 })
  await reap(ref)
  t.equal(await openHolds(), 2)
  const [dead, alive] = holds
  if (!dead || !alive) throw new Error('unreachable')
  await sendOrder(scripts, settleOrder(alive, used(4)))
  t.same(await link.client.zrange(leases, '0', '-1'), [dead.id])
  await link.client.zadd(leases, 1, dead.id)
  await link.client.hset(keys.account(ref), 'next_expiry', 0)
  await reap(ref)
  t.same(counts, [1])
  t.equal(await openHolds(), 0)
  t.equal(await link.client.exists(leases), 0)
  t.equal(await field('open'), 0)
  await sound()
})
