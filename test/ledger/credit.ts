// Top-ups, adjustments and refunds: once for each id, within the range of the sums, never below what is held.

import t from 'tap'
import { hourOfHold } from '../../src/ledger/hold-rows.ts'
import { sendOrder, settleOrder } from '../../src/ledger/orders.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import { creditOrder } from '../../src/ledger/credit.ts'
import { keys } from '../../src/redis/keys.ts'
import {
  makeAccount,
  makeHold,
  newHoldId,
  openOn,
  request,
  topUp,
  used,
} from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'

t.test('credits', async (t) => {
  const { link, ledger } = await openOn(t)

  t.test('the same id gives the same transaction, other content is refused', async (t) => {
    const caller = await makeAccount(link)
    const wanted = {
      ref: caller.ref,
      idempotencyId: newHoldId(),
      amount: 500,
      type: 'topup',
      note: 'Grüße',
    } as const
    const answers = await Promise.all(Array.from({ length: 5 }, () => ledger.credit(wanted)))
    t.equal(new Set(answers.map(({ transaction }) => transaction.id)).size, 1)
    t.same(pick(answers, 'isRepeated'), [false, true, true, true, true])
    t.match(answers[0]?.transaction, {
      object: 'billing.transaction',
      type: 'topup',
      amount: 500,
      balance_after: 500,
      note: 'Grüße',
    })
    const { data } = await ledger.transactions(caller.ref, { limit: 9, order: 'desc' })
    t.same(data, [answers[0]?.transaction], 'the answer is what the list shows')
    await t.rejects(ledger.credit({ ...wanted, amount: 501 }), {
      code: 'idempotency_key_reused',
      status: 422,
    })
    t.match(await ledger.balance(caller.ref), { granted: 500 })
    t.ok((await link.client.ttl(keys.credit(caller.ref, wanted.idempotencyId))) > 24 * 3600)
  })

  t.test('an adjustment never takes what is held', async (t) => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 100)
    await ledger.admit(request(caller, 60))
    const adjust = (amount: number) =>
      ledger.credit({ ref: caller.ref, idempotencyId: newHoldId(), amount, type: 'adjustment' })
    await t.rejects(adjust(-41), { code: 'insufficient_balance', status: 409 })
    const { transaction } = await adjust(-40)
    t.match(transaction, { type: 'adjustment', amount: -40, balance_after: 60 })
    t.match(await ledger.balance(caller.ref), { granted: 60, available: 0, reserved: 60 })
  })

  t.test('invalid amounts are refused before Redis is asked', async (t) => {
    const caller = await makeAccount(link)
    const credit = (amount: number, type: 'topup' | 'adjustment' = 'topup') =>
      ledger.credit({ ref: caller.ref, idempotencyId: newHoldId(), amount, type })
    for (const amount of [0, -1, 1.5, Number.NaN, 2 ** 53]) {
      await t.rejects(credit(amount), { code: 'invalid_parameter', param: 'amount' })
    }
    await t.rejects(credit(0, 'adjustment'), { code: 'invalid_parameter' })
    await t.rejects(
      ledger.credit({ ref: 'nobody', idempotencyId: 'x', amount: 1, type: 'topup' }),
      { code: 'account_not_found' },
    )
  })

  t.test('a refund takes from what was spent, and no more', async (t) => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 100)
    await ledger.settle(await ledger.admit(request(caller, 60)), used(60))
    const refund = (amount: number) =>
      ledger.credit({ ref: caller.ref, idempotencyId: newHoldId(), amount, type: 'refund' })
    for (const amount of [61, 0, -1])
      await t.rejects(refund(amount), { code: 'invalid_parameter', param: 'amount' })
    const { transaction } = await refund(50)
    t.match(transaction, { type: 'refund', amount: 50, balance_after: 90 })
    t.same((await ledger.transactions(caller.ref, { limit: 1, order: 'desc' })).data, [transaction])
    t.match(await ledger.balance(caller.ref), { granted: 100, spent: 10, balance: 90 })
    await t.rejects(refund(11), { code: 'invalid_parameter' })
    t.same((await ledger.audit(caller.ref)).differences, [])
  })

  t.test('of two refunds at once, the second gets no more than is left', async (t) => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 100)
    await ledger.settle(await ledger.admit(request(caller, 50)), used(50))
    const refund = (idempotencyId: string) =>
      ledger.credit({ ref: caller.ref, idempotencyId, amount: 40, type: 'refund' })
    const made = await Promise.allSettled([refund('one'), refund('two')])
    t.equal(made.filter(({ status }) => status === 'fulfilled').length, 1)
    t.match(await ledger.balance(caller.ref), { spent: 10 })
    t.same((await ledger.audit(caller.ref)).differences, [])
  })

  t.test('a repeated refund is answered as before, though less is spent now', async (t) => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 100)
    await ledger.settle(await ledger.admit(request(caller, 50)), used(50))
    const refund = () =>
      ledger.credit({ ref: caller.ref, idempotencyId: 'r', amount: 40, type: 'refund' })
    const { transaction } = await refund()
    t.match(await refund(), { isRepeated: true, transaction: { id: transaction.id } })
    t.match(await ledger.balance(caller.ref), { spent: 10 })
  })

  t.test('a refund pays first what is owed', async (t) => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 10)
    await ledger.settle(await ledger.admit(request(caller, 10)), used(30))
    await ledger.credit({ ref: caller.ref, idempotencyId: 'r', amount: 8, type: 'refund' })
    t.match(await ledger.balance(caller.ref), { granted: 10, spent: 10, balance: 0, owed: 12 })
    t.same((await ledger.audit(caller.ref)).differences, [])
  })

  t.test('after a refund, what a balance can be bounds what comes back', async (t) => {
    const caller = await makeAccount(link)
    const most = Number.MAX_SAFE_INTEGER
    await topUp(ledger, caller, most)
    const scripts = createScripts({ library: ledgerScripts, link })
    const refund = { ref: caller.ref, idempotencyId: 'r', amount: 1, type: 'refund' } as const
    // Redis may have forgotten what was spent, and get it back after the refund.
    const order = creditOrder(refund, Date.now())
    t.equal((await sendOrder(scripts, order)).word, 'invalid_parameter')
    await ledger.settle(await ledger.admit(request(caller, 60)), used(60))
    t.equal((await sendOrder(scripts, { ...order, amount: 60 })).word, 'ok')
    t.match(await ledger.balance(caller.ref), { granted: most, spent: 0, balance: most })
    t.same((await ledger.audit(caller.ref)).differences, [])
  })

  t.test('a correction after a refund does not pass it either', async (t) => {
    const most = Number.MAX_SAFE_INTEGER
    const caller = await makeAccount(link, { account: { granted: most, spent: 0 } })
    const id = newHoldId()
    // As if it had been reaped at 60, and the 60 refunded.
    await link.client.hset(keys.settled(caller.ref, hourOfHold(id)), id, 'r 60 7 0 60')
    const scripts = createScripts({ library: ledgerScripts, link })
    const settled = await sendOrder(scripts, settleOrder(makeHold({ ...caller, id }), used(50)))
    t.same(settled.values.slice(2, 5), ['60', '0', `${most}`])
    t.match(await ledger.balance(caller.ref), { balance: most, spent: 0, owed: 0 })
  })

  t.test('a payment is made once, for ever, whatever the idempotency ids', async (t) => {
    const caller = await makeAccount(link)
    const pay = (more: object = {}) =>
      ledger.credit({
        ref: caller.ref,
        idempotencyId: newHoldId(),
        amount: 500,
        type: 'topup',
        reference: 'pi_3Nabc',
        ...more,
      })
    const first = await pay({ note: 'first' })
    t.match(first, { isRepeated: false, transaction: { reference: 'pi_3Nabc', amount: 500 } })
    t.same(await pay({ note: 'second' }), { ...first, isRepeated: true }, 'the first transaction')
    const scripts = createScripts({ library: ledgerScripts, link })
    const late = { ref: caller.ref, idempotencyId: 'late', amount: 500, type: 'topup' } as const
    const order = creditOrder({ ...late, reference: 'pi_3Nabc' }, 0)
    t.equal((await sendOrder(scripts, order)).word, 'ok', 'also long after')
    await t.rejects(pay({ amount: 501 }), { code: 'reference_reused', status: 422 })
    t.match(await pay({ reference: 'pi_3Nabd' }), { isRepeated: false })
    t.match(await ledger.balance(caller.ref), { granted: 1000 })
    const other = await makeAccount(link)
    t.match(await pay({ ref: other.ref }), { isRepeated: false }, 'unique in an account')
    t.equal(await link.client.ttl(keys.payments(caller.ref)), -1)
  })

  t.test('an idempotency id keeps to its payment', async (t) => {
    const caller = await makeAccount(link)
    const pay = (idempotencyId: string, reference: string, amount = 5) =>
      ledger.credit({ ref: caller.ref, idempotencyId, amount, type: 'topup', reference })
    await pay('a', 'pay_1')
    await pay('b', 'pay_1')
    await t.rejects(pay('b', 'pay_2'), { code: 'idempotency_key_reused' })
    await t.rejects(pay('c', 'pay_1', 6), { code: 'reference_reused' })
    t.match(await pay('c', 'pay_3', 6), { isRepeated: false }, 'a refusal uses up no id')
  })

  t.test('a reference is of a top-up, and visible', async (t) => {
    const { ref } = await makeAccount(link)
    const wanted = { ref, idempotencyId: newHoldId(), amount: 5 }
    for (const reference of ['', ' ', 'a b', 'ü', 'a\n', 'x'.repeat(256)]) {
      const paying = ledger.credit({ ...wanted, type: 'topup', reference })
      await t.rejects(paying, { code: 'invalid_parameter', param: 'reference' })
    }
    const refund = ledger.credit({ ...wanted, type: 'refund', reference: 'r' })
    await t.rejects(refund, { code: 'invalid_parameter', param: 'reference' })
  })

  t.test('a credit that is a day old and has left no trace is not made', async (t) => {
    const caller = await makeAccount(link)
    const scripts = createScripts({ library: ledgerScripts, link })
    const wanted = { ref: caller.ref, idempotencyId: 'i', amount: 5, type: 'topup' } as const
    const madeHoursAgo = (hours: number) => creditOrder(wanted, Date.now() - hours * 3_600_000)
    t.equal((await sendOrder(scripts, madeHoursAgo(25))).word, 'late')
    t.equal((await sendOrder(scripts, madeHoursAgo(23))).word, 'ok')
    t.match(await ledger.balance(caller.ref), { granted: 5 })
  })

  t.test('the same request has the same hash, wherever it was made', async (t) => {
    const wanted = { ref: 'r', idempotencyId: 'i', amount: 1, type: 'topup' } as const
    t.equal(creditOrder(wanted, 1).hash, creditOrder(wanted, 2).hash)
    t.not(creditOrder(wanted, 1).hash, creditOrder({ ...wanted, note: 'n' }, 1).hash)
    t.not(creditOrder(wanted, 1).hash, creditOrder({ ...wanted, reference: 'n' }, 1).hash)
    // A gateway that knows no references may get the second try.
    t.equal(creditOrder(wanted, 1).hash, '9JmfYwv1DNHlZP3CSX-hgg10P0xT6gtisbda87-kCe0')
  })
})
