// Promise 6 of the ledger: a crash loses nothing. Holds last as long as their gateway renews them, and are given back
// when it is dead; a gateway that was only frozen opens them again.

import t from 'tap'
import type { Test } from 'tap'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { reap as reapNow } from '../../src/ledger/reaping.ts'
import { accountKeys, keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import type { ScriptLink } from '../../src/redis/scripts.ts'
import {
  deadlineOf,
  makeAccount,
  moveLeases,
  newHoldId,
  openAdmission,
  openFor,
  openOn,
  reapingStarted,
  request,
  spend,
  topUp,
  untilRow,
  usageList,
  used,
} from '../fixtures/ledger.ts'
import type { OpenOptions } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { standStill } from '../fixtures/stand-still.ts'
import { soon, until } from '../fixtures/until.ts'

const page = { limit: 100, order: 'asc' } as const

const server = await startRedis(t)

const reapWith = (link: ScriptLink, leaseMs: number) => (ref: string) =>
  reapNow(
    {
      scripts: createScripts({ library: ledgerScripts, link }),
      leaseMs,
      onReaped: () => undefined,
    },
    ref,
  )

const open = (t: Test, more: Partial<OpenOptions> = {}) => openOn(t, { on: server, ...more })

t.test("6 a dead gateway's hold comes back, charged at its last checkpoint", async (t) => {
  const leaseMs = 90
  const dying = await open(t, { leaseMs })
  const { link, ledger } = await open(t, { leaseMs })
  await reapingStarted(link)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  const hold = await dying.ledger.admit(request(caller, 400))
  spend(hold, { charge: 120 })
  spend(hold, { completion: 9 })
  await untilRow(link, hold, '400 120 ')
  dying.link.drop()
  await dying.ledger.close(0)
  await until(async () => (await ledger.balance(caller.ref)).reserved === 0)
  t.match(await ledger.balance(caller.ref), { balance: 880 })
  t.match((await ledger.transactions(caller.ref, page)).data[1], {
    type: 'charge',
    amount: -120,
    estimated: true,
    request_id: 'req_1',
  })
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test(
  '6 work that has not settled when its gateway ends is charged as it stands then',
  async (t) => {
    const ending = await open(t)
    const { ledger } = await open(t)
    const caller = await makeAccount(ending.link)
    await topUp(ledger, caller, 1000)
    const [streamed, silent] = [
      await ending.ledger.admit(request(caller, 400)),
      await ending.ledger.admit(request(caller, 300)),
    ]
    const counting = Promise.withResolvers<void>()
    streamed.watch(
      () => used(120),
      () => counting.promise,
    )
    await ending.ledger.close()
    t.match(
      await ledger.balance(caller.ref),
      { balance: 880, reserved: 0 },
      'no lease is waited for',
    )
    await ending.ledger.settle(streamed, used(130))
    await ending.ledger.settle(silent, used(0))
    counting.resolve()
    const { data } = await ledger.transactions(caller.ref, page)
    t.match(data.slice(1), [{ type: 'charge', amount: -120, estimated: true }])
    t.same((await ledger.audit(caller.ref)).differences, [])
  },
)

t.test('6 a gateway frozen past its lease opens its hold again for what is left', async (t) => {
  const leaseMs = 90
  const frozen = await open(t, { leaseMs })
  const { link, ledger } = await open(t, { leaseMs })
  await reapingStarted(link)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  const hold = await frozen.ledger.admit(request(caller, 400))
  spend(hold, { charge: 120 })
  await untilRow(link, hold, '400 120 ')
  // Both are sent in the turn in which it wakes, before its timers renew the lease or open the hold again. A renewal
  // that a slow Redis takes only then makes the lease outlast this: once more.
  const reapedAt = (balance: number) =>
    until(async () => {
      standStill(2 * leaseMs)
      const reaping = reapWith(link, leaseMs)(caller.ref)
      const seen = ledger.balance(caller.ref)
      await reaping
      const after = await seen
      return after.balance === balance && after.reserved === 0
    })
  await reapedAt(880)
  await untilRow(link, hold, '280 ')
  t.equal(hold.amount, 400)
  spend(hold, { charge: 170 })
  await untilRow(link, hold, '280 170 ')
  // A second reaping charges the difference.
  await reapedAt(830)
  t.match(await frozen.ledger.settle(hold, used(150)), { charge: 150, owed: 0 })
  t.match(await ledger.balance(caller.ref), { balance: 850, reserved: 0 })
  const { data } = await ledger.transactions(caller.ref, page)
  t.match(
    data.map(({ type, amount }) => [type, amount]),
    [
      ['topup', 1000],
      ['charge', -120],
      ['correction', -50],
      ['correction', 20],
    ],
  )
  t.match(
    await usageList(ledger, caller.ref, {
      from: Date.now() / 1000 - 9,
      to: Date.now() / 1000,
      bucket: 'day',
    }),
    {
      data: [{ requests: 1, cost: 150, completion_tokens: 5, prompt_tokens: 7 }],
    },
  )
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test(
  '6 reaped again before a checkpoint, a hold keeps the tokens it was charged for',
  async (t) => {
    const { link, ledger, caller } = await openFor(t, 1000, { on: server, leaseMs: 90 })
    await reapingStarted(link)
    const scripts = createScripts({ library: ledgerScripts, link })
    const hold = await openAdmission({ scripts, leaseMs: 30_000 }).admit(request(caller, 400))
    const isReaped = async () => (await ledger.balance(caller.ref)).reserved === 0
    const usage = async () => {
      const to = Date.now() / 1000
      return (await usageList(ledger, caller.ref, { from: to - 9, to, bucket: 'day' })).data
    }
    await scripts.run('checkpoint', accountKeys(caller.ref), ['1', `${hold.id} 120 7 2 5`])
    await until(isReaped)
    t.ok(await openAdmission({ scripts, leaseMs: 1 }).openAgain(hold))
    await until(isReaped)
    const counted = { requests: 1, prompt_tokens: 7, completion_tokens: 5 }
    t.match(await usage(), [{ ...counted, cost: 120 }])
    await ledger.settle(hold, used(150))
    t.match(await usage(), [{ ...counted, cost: 150 }])
    t.same((await ledger.audit(caller.ref)).differences, [])
  },
)

t.test('6 a frozen gateway whose money went elsewhere stops its backend', async (t) => {
  const leaseMs = 90
  const frozen = await open(t, { leaseMs })
  const { link, ledger } = await open(t, { leaseMs })
  await reapingStarted(link)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 400)
  const hold = await frozen.ledger.admit(request(caller, 400))
  spend(hold, { charge: 120 })
  await untilRow(link, hold, '400 120 ')
  const stopped = new Promise((resolve) => hold.onStop(resolve))
  const scripts = createScripts({ library: ledgerScripts, link })
  const holdId = newHoldId()
  standStill(2 * leaseMs)
  // Sent in the same turn, before the timers of the frozen gateway. No stall ends this hold.
  const reaped = reapWith(link, leaseMs)(caller.ref)
  const admitted = openAdmission({ scripts, leaseMs }).admit(request(caller, 280, { holdId }))
  const kept = moveLeases(link, caller.ref, { to: 9_999_999_999_999, of: [holdId] })
  await reaped
  t.equal((await admitted).amount, 280)
  await kept
  t.equal(await soon(stopped), 'insufficient_balance')
})

t.test('a suspended account is refused, its streams stop at the next checkpoint', async (t) => {
  const { link, ledger, caller } = await openFor(t, 400, { on: server, leaseMs: 90 })
  const hold = await ledger.admit(request(caller, 100))
  const stopped = new Promise((resolve) => hold.onStop(resolve))
  await link.client.hset(keys.account(caller.ref), 'status', 'suspended')
  t.equal(await stopped, 'account_suspended')
  await t.rejects(ledger.admit(request(caller, 100)), { code: 'account_suspended', status: 403 })
})

t.test('while a gateway lives, its holds are renewed', async (t) => {
  const { link, ledger } = await open(t, { leaseMs: 30_000 })
  const caller = await makeAccount(link)
  const hold = await ledger.admit(request(caller, 0))
  const deadline = () => deadlineOf(link, caller.ref, hold.id)
  const first = await deadline()
  // If the new deadline were no later than now, this would take 30 s.
  await until(async () => (await deadline()) > first + 500)
})

t.test('a Redis that was just started reaps no hold before it can be renewed', async (t) => {
  const own = await startRedis(t)
  const { link, ledger, caller } = await openFor(t, 100, { on: own, leaseMs: 3000 })
  const hold = await ledger.admit(request(caller, 40))
  const uptimeS = async () =>
    Number(/uptime_in_seconds:(\d+)/.exec(await next.link.client.info('server'))?.[1])
  link.drop()
  await ledger.close(0)
  const next = await open(t, { on: own, leaseMs: 3000 })
  await moveLeases(next.link, caller.ref, { to: 1, of: [hold.id] })
  await until(async () => {
    const { reserved } = await next.ledger.balance(caller.ref)
    if (reserved === 40) return false
    t.ok((await uptimeS()) >= 3, 'reaped only then')
    return true
  })
})
