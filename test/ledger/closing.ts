// The end of an account's books: nothing is added to a closed account, and what is left is written off once.

import t from 'tap'
import { audit } from '../../src/ledger/audit.ts'
import { createClosing, writeOffNote } from '../../src/ledger/closing.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import {
  auditPlace,
  makeAccount,
  moveLeases,
  newHoldId,
  openAdmission,
  openFor,
  openOn,
  reapingStarted,
  request,
  topUp,
  used,
} from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'

t.test('books', async (t) => {
  const { link, ledger } = await openOn(t)
  const { closing } = ledger
  const place = auditPlace(link)
  const entriesOf = async (ref: string) => {
    const { data } = await ledger.transactions(ref, { limit: 99, order: 'asc' })
    return data.map(({ type, amount, balance_after }) => [type, amount, balance_after])
  }
  const addsUp = async (ref: string) => t.same((await audit(place, { ref })).differences, [])

  t.test('an account with tokens is closed only when they are forfeited', async (t) => {
    const caller = await makeAccount(link)
    const { ref } = caller
    await topUp(ledger, caller, 100)
    const hold = await ledger.admit(request(caller, 30))
    await t.rejects(closing.close(ref, false), {
      code: 'account_not_empty',
      status: 409,
      shortage: { available: 70, owed: 0 },
    })
    t.ok(await ledger.identify(caller), 'nothing has changed')
    await t.rejects(closing.writeOff(ref), { code: 'account_not_found' }, 'it is not closed')
    await closing.close(ref, true)
    await closing.close(ref, false)
    await t.rejects(ledger.identify(caller), { code: 'account_suspended' })
    await t.rejects(ledger.admit(request(caller, 1)), { code: 'account_suspended' })
    t.equal(await closing.writeOff(ref), 1, 'a request is under way')
    t.match(await ledger.balance(ref), { balance: 100, reserved: 30 })
    await ledger.settle(hold, used(25))
    for (const _ of [1, 2]) t.equal(await closing.writeOff(ref), 0)
    t.match(await ledger.balance(ref), { balance: 0, reserved: 0, owed: 0, spent: 25 })
    t.same(await entriesOf(ref), [
      ['topup', 100, 100],
      ['charge', -25, 75],
      ['adjustment', -75, 0],
    ])
    const { data } = await ledger.transactions(ref, { limit: 1, order: 'desc' })
    t.same(pick(data, 'note'), [writeOffNote])
    await addsUp(ref)
  })

  t.test('a debt is not forgotten, but paid by an adjustment', async (t) => {
    const caller = await makeAccount(link)
    const { ref } = caller
    await topUp(ledger, caller, 10)
    await ledger.settle(await ledger.admit(request(caller, 10)), used(25))
    await t.rejects(closing.close(ref, false), { code: 'account_not_empty', message: /owes 15/ })
    await closing.close(ref, true)
    t.equal(await closing.writeOff(ref), 0)
    t.same(await entriesOf(ref), [
      ['topup', 10, 10],
      ['charge', -10, 0],
      ['adjustment', 15, 15],
      ['repayment', -15, 0],
    ])
    t.match(await ledger.balance(ref), { balance: 0, owed: 0, granted: 25, spent: 25 })
    await addsUp(ref)
  })

  t.test('nothing can be credited; what was credited before is answered as before', async (t) => {
    const caller = await makeAccount(link)
    const { ref } = caller
    const credit = { ref, idempotencyId: newHoldId(), amount: 5, type: 'topup' } as const
    const { transaction } = await ledger.credit(credit)
    await closing.close(ref, true)
    t.match(await ledger.credit(credit), { transaction, isRepeated: true })
    for (const type of ['topup', 'adjustment'] as const) {
      const other = { ...credit, type, idempotencyId: newHoldId() }
      await t.rejects(ledger.credit(other), { code: 'account_deleted', status: 410 })
    }
    await closing.writeOff(ref)
    t.same(await entriesOf(ref), [
      ['topup', 5, 5],
      ['adjustment', -5, 0],
    ])
  })

  t.test('what comes after the end is charged nothing, and on record', async (t) => {
    const caller = await makeAccount(link)
    const { ref } = caller
    await topUp(ledger, caller, 10)
    const settled = await ledger.admit(request(caller, 4))
    await closing.close(ref, true)
    await ledger.settle(settled, used(4))
    t.equal(await closing.writeOff(ref), 0)
    const before = (await ledger.audit(ref)).late
    const other = await makeAccount(link)
    await topUp(ledger, other, 10)
    const hold = await ledger.admit(request(other, 10))
    // As if its reaping had been in the books that ended.
    const lost = { ...hold.fields, ref }
    Object.assign(hold, { fields: lost })
    t.match(await ledger.settle(hold, used(9)), { charge: 0 })
    t.equal((await ledger.audit(ref)).late, before + 1)
    t.match(await ledger.balance(ref), { balance: 0, owed: 0 })
    await addsUp(ref)
  })

  t.test('of an account that does not exist', async (t) => {
    await t.rejects(closing.close('nobody', true), { code: 'account_not_found' })
    await t.rejects(closing.writeOff('nobody'), { code: 'account_not_found' })
  })
})

t.test('the holds of a gateway that died end with their leases', async (t) => {
  const { link, ledger, caller, ref } = await openFor(t, 1000)
  const scripts = createScripts({ link, library: ledgerScripts })
  const dead = openAdmission({ scripts, leaseMs: 30_000 })
  // More than one call reaps.
  const holds = await Promise.all(Array.from({ length: 101 }, () => dead.admit(request(caller, 2))))
  await moveLeases(link, ref, { to: 1, of: holds.map(({ id }) => id) })
  await reapingStarted(link)
  let reaped = 0
  const onReaped = (count: number) => void (reaped += count)
  const gate = { pass: () => undefined }
  const closing = createClosing({ scripts, leaseMs: 1, gate, onReaped })
  await closing.close(ref, true)
  t.equal(reaped, 101)
  t.equal(await closing.writeOff(ref), 0)
  t.match(await ledger.balance(ref), { balance: 0, reserved: 0 })
  t.same((await ledger.audit(ref)).differences, [])
})
