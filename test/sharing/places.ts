// src/sharing/places.ts: who gets places, and that all are given back.

import t from 'tap'
import { createPlaces } from '../../src/sharing/places.ts'
import { SharedPool } from '../../src/sharing/shared-pool.ts'

t.test('an account has so many places and no more, whatever others have', async (t) => {
  const places = createPlaces({ most: 2, pool: new SharedPool(100) })
  const giveBack = places.take('a')
  places.take('a')
  t.throws(() => places.take('a'), { code: 'concurrency_limit_exceeded', retryAfterMs: 1000 })
  places.take('b')
  giveBack()
  giveBack()
  places.take('a')
  t.throws(() => places.take('a'), { code: 'concurrency_limit_exceeded' })
})

t.test(
  'one account never has all that there are, and a newcomer meets load, not a limit',
  async (t) => {
    const pool = new SharedPool(10)
    const places = createPlaces({ pool })
    const back = Array.from({ length: 5 }, () => places.take('greedy'))
    t.throws(() => places.take('greedy'), { code: 'concurrency_limit_exceeded' })
    places.take('b')
    places.take('b')
    places.take('c')
    places.take('d')
    t.throws(() => places.take('newcomer'), { code: 'overloaded' })
    for (const giveBack of back) giveBack()
    t.equal(pool.used, 4)
    places.take('newcomer')
  },
)
