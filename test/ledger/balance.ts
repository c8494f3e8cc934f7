import t from 'tap'
import { toBalance } from '../../src/ledger/balance.ts'

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
  t.same(toBalance({ ...names, ...sums }), {
    object: 'billing.balance',
    unit: 'token',
    balance: 60,
    reserved: 60,
    available: 0,
    granted: 100,
    spent: 40,
    owed: 7,
    updated_at: 1,
  })
})
