import t from 'tap'
import { Hold } from '../../src/ledger/hold.ts'
import type { HoldFields } from '../../src/ledger/hold.ts'

const fields: HoldFields = {
  id: 'h',
  ref: 'r',
  hmac: 'x',
  accountId: 'a',
  accountName: 'A',
  keyId: 'k',
  plan: 'p',
  model: 'm',
  meta: '{}',
  limits: {},
  countedTokens: 0,
  minute: 0,
}

t.test('who listens late is told what happened before, and once', async (t) => {
  const hold = new Hold(fields, 100)
  const told: string[] = []
  hold.stop('account_suspended')
  hold.onStop((reason) => told.push(reason))
  hold.stop('lost')
  t.same(told, ['account_suspended'])
})

t.test('only a hold that was opened again with less is stopped when it is spent', async (t) => {
  const told: string[] = []
  const hold = new Hold(fields, 100)
  hold.onStop((reason) => told.push(reason))
  hold.progress.charge = 100
  hold.stopIfSpent()
  t.same(told, [], 'its output was bounded to fit')
  hold.progress.charge = 50
  hold.reopened(80)
  t.equal(hold.amount, 80)
  t.same(told, [])
  hold.progress.charge = 80
  hold.stopIfSpent()
  t.same(told, ['insufficient_balance'])
})

t.test('opened again with all of it, it is as before', async (t) => {
  const hold = new Hold(fields, 100)
  hold.reopened(100)
  hold.progress.charge = 100
  hold.onStop(() => t.fail('stopped'))
  hold.stopIfSpent()
  t.equal(hold.amount, 100)
})
