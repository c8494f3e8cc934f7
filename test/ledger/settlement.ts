import t from 'tap'
import { releaseOrder, settleOrder, toSettled } from '../../src/ledger/settlement.ts'
import { makeHold } from '../fixtures/ledger.ts'

const hold = () => makeHold({ model: 'm%2F1', meta: '{"a":1}', countedTokens: 30, minute: 7 })

t.test('an order has all that a Redis without the hold needs for the charge', async (t) => {
  t.same(
    settleOrder(hold(), {
      charge: 5,
      prompt: 1,
      cached: 2,
      completion: 3,
      estimated: true,
      cut: true,
      implausible: 8,
    }),
    {
      kind: 'settle',
      ref: 'r',
      hmac: 'x',
      id: 'h',
      charge: 5,
      prompt: 1,
      cached: 2,
      completion: 3,
      counted: 30,
      minute: 7,
      implausible: 8,
      keyId: 'k',
      model: 'm%2F1',
      flags: 'ec',
      meta: '{"a":1}',
    },
  )
})

t.test('no number of a backend that the sums cannot take gets into them', async (t) => {
  const order = settleOrder(hold(), {
    charge: 2 ** 60,
    prompt: 1e300,
    cached: Number.NaN,
    completion: -4.5,
  })
  t.match(order, {
    charge: Number.MAX_SAFE_INTEGER,
    prompt: 1e12,
    cached: 0,
    completion: 0,
    flags: '',
  })
})

t.test('what became of it', async (t) => {
  const order = { ...releaseOrder('r', 'x', 'h'), charge: 9 }
  t.same(toSettled(order, undefined), { charge: 9, owed: 0, isWaiting: true })
  t.same(toSettled(order, { word: 'late', nowMs: 1, values: [] }), {
    charge: 0,
    owed: 0,
    isWaiting: false,
  })
  t.same(toSettled(order, { word: 'ok', nowMs: 1, values: ['ok', 1, '4', '5'] }), {
    charge: 4,
    owed: 5,
    isWaiting: false,
  })
})
