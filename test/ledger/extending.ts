// Holds that grow: extend.lua by way of an admission, on a real Redis.

import t from 'tap'
import type { Test } from 'tap'
import type { Hold } from '../../src/ledger/hold.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import {
  deadlineOf,
  moveLeases,
  newHoldId,
  openAdmission,
  openFor,
  reapingStarted,
  request,
  spend,
  untilBalance,
  used,
} from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const server = await startRedis(t)

/** An account with so many tokens, and a hold of the first slice of a stream. */
async function sliced(t: Test, tokens: number, slice: number) {
  const opened = await openFor(t, tokens, { on: server })
  const { ledger, caller } = opened
  const hold = await ledger.admit(request(caller, slice, { min: 1, isSliced: true }))
  return { ...opened, hold }
}

t.test('a hold in slices leaves seven eighths of what is available to others', async (t) => {
  const { ledger, caller, hold } = await sliced(t, 800, 1000)
  t.equal(hold.amount, 100)
  const next = await ledger.admit(request(caller, 1000, { min: 1, isSliced: true }))
  t.equal(next.amount, 87)
  const least = await ledger.admit(request(caller, 1000, { min: 200, isSliced: true }))
  t.equal(least.amount, 200, 'but not less than it needs')
  const whole = await ledger.admit(request(caller, 1000, { min: 1 }))
  t.equal(whole.amount, 413, 'who holds in full takes all')
})

t.test('an extension names the whole amount, so a repeated one adds nothing', async (t) => {
  const { ledger, hold, sums } = await sliced(t, 10_000, 100)
  t.ok(await ledger.extend(hold, { amount: 300, least: 10 }))
  t.ok(await ledger.extend(hold, { amount: 300, least: 10 }))
  t.ok(await ledger.extend(hold, { amount: 200, least: 10 }), 'nor does an older one')
  t.equal(hold.amount, 300)
  t.same(await sums(), { balance: 10_000, reserved: 300, available: 9700, owed: 0 })
  await ledger.settle(hold, used(250))
  t.same(await sums(), { balance: 9750, reserved: 0, available: 9750, owed: 0 })
})

t.test('an extension takes a share, its least if that is more, and at last the rest', async (t) => {
  const { ledger, hold, sums } = await sliced(t, 1000, 200)
  t.equal(hold.amount, 125)
  t.ok(await ledger.extend(hold, { amount: 1000, least: 10 }))
  t.equal(hold.amount, 125 + 109)
  t.ok(await ledger.extend(hold, { amount: 1000, least: 700 }))
  t.equal(hold.amount, 234 + 700)
  t.notOk(await ledger.extend(hold, { amount: 1100, least: 700 }), 'no more is available')
  t.equal(hold.amount, 1000)
  t.same(await sums(), { balance: 1000, reserved: 1000, available: 0, owed: 0 })
  t.notOk(await ledger.extend(hold, { amount: 1100, least: 700 }))
  t.equal(hold.amount, 1000)
  await ledger.credit({
    ref: hold.fields.ref,
    idempotencyId: newHoldId(),
    amount: 50,
    type: 'topup',
  })
  await ledger.extend(hold, { amount: 1100, least: 700 })
  t.equal(hold.amount, 1050, 'what came in meanwhile')
})

t.test('an extension is a checkpoint', async (t) => {
  const { ledger, link, caller, hold } = await sliced(t, 10_000, 100)
  spend(hold, used(60))
  const before = await deadlineOf(link, caller.ref, hold.id)
  const now = async () => Number((await link.client.time())[0]) * 1000
  await until(async () => (await now()) > before - 30_000)
  await ledger.extend(hold, { amount: 300, least: 10 })
  t.match(await ledger.holds.usedBy(caller.ref, hold.id), { state: 'open', used: used(60) })
  t.ok((await deadlineOf(link, caller.ref, hold.id)) > before)
})

t.test("when Redis' clock has gone back, the lease is still looked at in time", async (t) => {
  const { ledger, link, caller, hold } = await sliced(t, 10_000, 100)
  const account = keys.account(caller.ref)
  await link.client.hset(account, 'next_expiry', Date.now() + 3_600_000)
  await ledger.extend(hold, { amount: 300, least: 10 })
  const noted = Number(await link.client.hget(account, 'next_expiry'))
  t.equal(noted, await deadlineOf(link, caller.ref, hold.id))
})

t.test('while an account owes something, its streams get no more', async (t) => {
  const { ledger, caller, hold, sums } = await sliced(t, 1000, 100)
  const greedy = await ledger.admit(request(caller, 400))
  await ledger.settle(greedy, used(1100))
  t.same(await sums(), { balance: 100, reserved: 100, available: 0, owed: 200 })
  t.notOk(await ledger.extend(hold, { amount: 300, least: 10 }))
  t.equal(hold.amount, 100)
  await ledger.settle(hold, used(40))
  t.same(await sums(), { balance: 0, reserved: 0, available: 0, owed: 140 })
})

t.test('a suspended account gets no more, and the stream is stopped', async (t) => {
  const { ledger, link, caller, hold } = await sliced(t, 1000, 100)
  const told: string[] = []
  hold.onStop((reason) => told.push(reason))
  await link.client.hset(keys.account(caller.ref), 'status', 'suspended')
  await ledger.extend(hold, { amount: 300, least: 10 })
  t.same(told, ['account_suspended'])
  t.equal(await link.client.hget(keys.account(caller.ref), 'reserved'), '100')
})

t.test('an extension that comes after the settlement changes nothing', async (t) => {
  const { ledger, hold, sums } = await sliced(t, 1000, 100)
  const told: string[] = []
  hold.onStop((reason) => told.push(reason))
  const settled = ledger.settle(hold, used(40))
  await ledger.extend(hold, { amount: 300, least: 10 })
  await settled
  t.same(told, ['lost'])
  t.same(await sums(), { balance: 960, reserved: 0, available: 960, owed: 0 })
})

/** An admission whose holds nobody renews, so that they are reaped. */
async function unrenewed(t: Test, tokens: number) {
  const { ledger, link, caller } = await openFor(t, tokens, { on: server })
  await reapingStarted(link)
  const scripts = createScripts({ library: ledgerScripts, link })
  const row = (hold: Hold) => link.client.hget(keys.holdRows(caller.ref), hold.id)
  const until = (to: number) => (hold: Hold) => moveLeases(link, caller.ref, { to, of: [hold.id] })
  const [end, keep] = [until(1), until(9_999_999_999_999)]
  return { ledger, caller, row, end, keep, admission: openAdmission({ scripts, leaseMs: 900 }) }
}

t.test('the holds of a dead gateway pay for an extension', async (t) => {
  const { ledger, caller, admission, row, end } = await unrenewed(t, 1000)
  const hold = await admission.admit(request(caller, 100))
  const dead = await admission.admit(request(caller, 880))
  await end(dead)
  await admission.extend(hold, { amount: 500, least: 400 })
  t.equal(hold.amount, 500)
  t.match(await row(hold), /^500 /)
  t.equal(await row(dead), null)
  await untilBalance(ledger, caller, { balance: 1000, reserved: 500 })
})

t.test('of more than a hundred dead holds, as many are reaped as it takes', async (t) => {
  const { caller, admission, end, keep } = await unrenewed(t, 1000)
  const hold = await admission.admit(request(caller, 1))
  await keep(hold)
  // An admission would reap those that have ended before it.
  const dead = Array.from({ length: 250 }, () => admission.admit(request(caller, 3)))
  for (const one of await Promise.all(dead)) await end(one)
  await admission.extend(hold, { amount: 1000, least: 1000 })
  t.equal(hold.amount, 1000)
})

t.test('a hold that was reaped is opened again, and then extended', async (t) => {
  const { ledger, caller, admission, row, end } = await unrenewed(t, 10_000)
  const hold = await admission.admit(request(caller, 100))
  spend(hold, used(60))
  await admission.extend(hold, { amount: 101, least: 10 })
  await end(hold)
  t.ok(await admission.extend(hold, { amount: 300, least: 10 }), 'it asks again')
  t.equal(hold.amount, 101)
  t.match(await row(hold), /^41 /, 'the reaping has charged 60')
  t.ok(await admission.extend(hold, { amount: 300, least: 10 }))
  t.equal(hold.amount, 300)
  t.match(await row(hold), /^240 60 7 2 5 /)
  await ledger.settle(hold, used(290))
  const { balance, reserved } = await ledger.balance(caller.ref)
  t.same({ balance, reserved }, { balance: 9710, reserved: 0 })
})

t.test('what a reaping has charged above the hold counts in its amount', async (t) => {
  const { ledger, caller, admission, row, end } = await unrenewed(t, 10_000)
  const hold = await admission.admit(request(caller, 50))
  spend(hold, used(80))
  await admission.extend(hold, { amount: 50, least: 0 })
  await end(hold)
  await admission.extend(hold, { amount: 52, least: 0 })
  t.match(await row(hold), /^0 /)
  await admission.extend(hold, { amount: 52, least: 0 })
  t.equal(hold.amount, 80)
  await untilBalance(ledger, caller, { balance: 9920, reserved: 0 })
  await ledger.settle(hold, used(90))
  await untilBalance(ledger, caller, { balance: 9910, reserved: 0 })
})

t.test('while Redis is away an extension fails as ledger_unavailable', async (t) => {
  const { ledger, link, hold } = await sliced(t, 1000, 100)
  link.drop()
  await t.rejects(ledger.extend(hold, { amount: 300, least: 10 }), { code: 'ledger_unavailable' })
  t.equal(hold.amount, 100)
})
