// What the refusals of an admission tell the client.

import t from 'tap'
import { refusalOf } from '../../src/ledger/refusal.ts'

const refused = {
  limits: undefined,
  caller: undefined,
  which: 'key',
  available: 3,
  owed: 0,
  mostTokens: Infinity,
  renewsAtMs: Date.UTC(2026, 11, 1),
  isHeld: false,
}

t.test('a budget that is used up says when it is renewed', async (t) => {
  const error = refusalOf({ ...refused, word: 'budget_exceeded' }, { min: 5 })
  t.match(error, { code: 'budget_exceeded', status: 402, retry: false, type: 'billing_error' })
  t.match(error.message, /budget of the key .* renewed at 2026-12-01T00:00:00Z/)
  t.same(error.shortage, { available: 3, needed: 5, owed: 0, renews_at: 1_796_083_200 })
})

t.test('money that is missing, and money that is owed', async (t) => {
  const short = refusalOf({ ...refused, word: 'insufficient_balance' }, { min: 5 })
  t.match(short, { code: 'insufficient_balance', shortage: { available: 3, needed: 5, owed: 0 } })
  const owing = refusalOf({ ...refused, word: 'insufficient_balance', owed: 7 }, { min: 5 })
  t.match(owing.message, 'owes 7 tokens')
})

t.test('a hold that has ended before it was made may be asked for again', async (t) => {
  t.match(refusalOf({ ...refused, word: 'released' }, { min: 1 }), { code: 'ledger_unavailable' })
})
