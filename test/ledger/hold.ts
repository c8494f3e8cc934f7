import t from 'tap'
import { makeHold, spend } from '../fixtures/ledger.ts'

t.test('a late listener gets the earlier event, once', async (t) => {
  const hold = makeHold()
  const told: string[] = []
  hold.stop('account_suspended')
  hold.onStop((reason) => told.push(reason))
  hold.stop('lost')
  t.same(told, ['account_suspended'])
})

t.test('only a hold that was opened again with less is stopped when it is used up', async (t) => {
  const told: string[] = []
  const hold = makeHold()
  hold.onStop((reason) => told.push(reason))
  spend(hold, { charge: 100 })
  hold.stopIfSpent()
  t.same(told, [], 'its output was bounded to fit')
  spend(hold, { charge: 50 })
  hold.reopened(80)
  t.equal(hold.amount, 80)
  t.same(told, [])
  spend(hold, { charge: 80 })
  hold.stopIfSpent()
  t.same(told, ['insufficient_balance'])
})

t.test('a hold that was lowered stays so when it is opened again', async (t) => {
  const hold = makeHold()
  const told: string[] = []
  hold.onStop((reason) => told.push(reason))
  hold.reopened(80)
  hold.reopened(80)
  spend(hold, { charge: 80 })
  hold.stopIfSpent()
  t.same(told, ['insufficient_balance'])
})

t.test('in shadow mode a hold that is used up says so, and its work goes on', async (t) => {
  const hold = makeHold({ isShadow: true })
  const told: string[] = []
  hold.onStop((reason) => told.push(reason))
  t.notOk(hold.wouldStop)
  spend(hold, { charge: 80 })
  hold.reopened(80)
  t.ok(hold.wouldStop)
  t.notOk(hold.isStopped)
  hold.stop('account_suspended')
  t.same(told, ['account_suspended'])
})

t.test('a hold that was opened again with all of it works as before', async (t) => {
  const hold = makeHold()
  hold.reopened(100)
  spend(hold, { charge: 100 })
  hold.onStop(() => t.fail('stopped'))
  hold.stopIfSpent()
  t.equal(hold.amount, 100)
})
