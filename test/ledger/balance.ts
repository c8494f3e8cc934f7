import t from 'tap'
import { toBalance } from '../../src/ledger/balance.ts'
import { unlimited } from '../fixtures/ledger.ts'

t.test('a balance is what was granted less what was spent, and says what is owed', async (t) => {
  const names = {
    accountId: 'a',
    accountName: 'A',
    plan: 'p',
    keyId: 'k',
    models: ['*'],
    tokensPerMinute: 5,
  }
  const sums = { granted: 100, spent: 40, reserved: 60, owed: 7, nowMs: 1999 }
  const none = { allowance: undefined, budget: undefined, keyBudget: undefined }
  t.same(toBalance({ ...names, ...sums, ...none }, undefined), {
    object: 'billing.balance',
    unit: 'token',
    balance: 60,
    reserved: 60,
    available: 0,
    granted: 100,
    spent: 40,
    owed: 7,
    allowance: null,
    budget: null,
    key_budget: null,
    updated_at: 1,
  })
  const allowance = { tokens: 50, every: 'day', rollover: false } as const
  const budget = { tokens: 30, every: 'month', used: 12, renews_at: 99 } as const
  const left = { left: 20, used: 30, endsMs: 9000 }
  const rich = {
    ...names,
    ...sums,
    reserved: 0,
    budget,
    keyBudget: undefined,
    allowance: left,
  }
  t.match(
    toBalance(rich, { ...unlimited, allowance }),
    {
      balance: 60,
      available: 18,
      allowance: { tokens: 50, every: 'day', left: 20, renews_at: 9 },
      budget,
    },
    'the budget leaves less than the balance',
  )
  t.match(toBalance({ ...rich, allowance: undefined }, { ...unlimited, allowance }), {
    allowance: { tokens: 50, left: 0, renews_at: null },
  })
  t.match(
    toBalance({ ...rich, spent: 95 }, { ...unlimited, allowance }),
    { balance: 5, allowance: { left: 5 } },
    'a gateway from before allowances has charged the balance alone',
  )
  t.match(toBalance(rich, unlimited), { allowance: { tokens: 0, every: null, left: 20 } })
  t.match(toBalance({ ...rich, budget: { ...budget, used: 40 } }, undefined), { available: 0 })
  t.match(toBalance({ ...rich, keyBudget: { ...budget, used: 20 } }, undefined), {
    available: 10,
    key_budget: { tokens: 30, used: 20 },
  })
})
