// Top-ups and adjustments: once for each id, within the range of the sums, never below what is held.

import t from 'tap'
import { sendOrder } from '../../src/ledger/orders.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import { creditOrder } from '../../src/ledger/credit.ts'
import { keys } from '../../src/redis/redis.ts'
import { makeAccount, newHoldId, openOn, request, topUp } from '../fixtures/ledger.ts'
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
  })
})
