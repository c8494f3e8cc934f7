// What a gateway that did not make a hold can learn of it: whether somebody renews it, and what it has used.

import { mock } from 'node:test'
import t from 'tap'
import { createHoldReader, hourOfHold, parseHoldRow } from '../../src/ledger/hold-rows.ts'
import { keys } from '../../src/redis/keys.ts'
import {
  makeAccount,
  moveLeases,
  newHoldId,
  openFor,
  openOn,
  request,
  topUp,
  used,
} from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const server = await startRedis(t)

t.test('an open hold has used what its last checkpoint says', async (t) => {
  const { link, ledger } = await openOn(t, { on: server, leaseMs: 300 })
  const holds = createHoldReader(link.client)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 100)
  const hold = await ledger.admit(request(caller, 50))
  const nothing = { charge: 0, prompt: 0, cached: 0, completion: 0 }
  t.strictSame(await holds.usedBy(caller.ref, hold.id), { state: 'open', used: nothing })
  hold.watch(() => used(9))
  const isTold = async () => {
    const use = await holds.usedBy(caller.ref, hold.id)
    return use.state === 'open' && use.used.charge === 9
  }
  await until(isTold)
  t.strictSame(await ledger.holds.usedBy(caller.ref, hold.id), { state: 'open', used: used(9) })
  const row = (await link.client.hget(keys.holdRows(caller.ref), hold.id)) ?? ''
  const keyId = `key_${caller.ref}`
  const { deadlineMs, ...rest } = parseHoldRow(row)
  t.strictSame(rest, { amount: 50, used: used(9), keyId, countedIn: [] })
  t.ok(Math.abs(deadlineMs - Date.now()) < 3_600_000)
  await ledger.settle(hold, used(12))
  t.strictSame(await holds.usedBy(caller.ref, hold.id), { state: 'settled', charge: 12 })
})

t.test('a reaped hold has used the same, and one that never was nothing', async (t) => {
  const { link, ledger, caller } = await openFor(t, 100, { on: server, leaseMs: 1 })
  const { ref } = caller
  const id = newHoldId()
  await link.client.hset(keys.account(ref), 'reserved', 50)
  await link.client.hset(keys.holdRows(ref), id, `50 9 7 2 5 key_${ref} m {} 0000000000001`)
  const isReaped = async () => {
    await ledger.balance(ref)
    return (await ledger.holds.usedBy(ref, id)).state === 'reaped'
  }
  await until(isReaped)
  t.strictSame(await ledger.holds.usedBy(ref, id), { state: 'reaped', used: used(9) })
  t.strictSame(await ledger.holds.usedBy(ref, newHoldId()), { state: 'unknown' })
})

t.test('a lease counts by the clock of Redis', async (t) => {
  const { link, ledger, caller } = await openFor(t, 100, { on: server })
  const { ref } = caller
  const hold = await ledger.admit(request(caller, 50))
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 3_600_000 })
  t.teardown(() => mock.timers.reset())
  t.equal(await ledger.holds.isLeased(ref, hold.id), true, 'this clock is ahead')
  await moveLeases(link, ref, { to: Date.now() - 3_601_000, of: [hold.id] })
  mock.timers.reset()
  mock.timers.enable({ apis: ['Date'], now: Date.now() - 3_600_000 })
  t.equal(await ledger.holds.isLeased(ref, hold.id), false, 'this clock is behind')
  await ledger.settle(hold, used(12))
  t.equal(await ledger.holds.isLeased(ref, hold.id), false, 'settled')
})

t.test('the hour of a hold is in its id', async (t) => {
  const id = `${(100 * 24 * 3_600_000 + 5).toString(16).padStart(12, '0')}${'0'.repeat(20)}`
  t.equal(hourOfHold(id), 2400)
})
