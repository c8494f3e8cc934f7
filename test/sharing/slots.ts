// src/sharing/slots.ts: who has them, and that all come back.

import t from 'tap'
import { createSlots } from '../../src/sharing/slots.ts'
import { SharedPool } from '../../src/sharing/shared-pool.ts'

t.test('an account has so many and no more, whatever others have', async (t) => {
  const slots = createSlots({ most: 2, pool: new SharedPool(100) })
  const giveBack = slots.take('a')
  slots.take('a')
  t.throws(() => slots.take('a'), { code: 'concurrency_limit_exceeded', retryAfterMs: 1000 })
  slots.take('b')
  giveBack()
  giveBack()
  slots.take('a')
  t.throws(() => slots.take('a'), { code: 'concurrency_limit_exceeded' })
})

t.test('one account never has all slots, and a newcomer meets load, not a limit', async (t) => {
  const pool = new SharedPool(10)
  const slots = createSlots({ pool })
  const back = Array.from({ length: 5 }, () => slots.take('greedy'))
  t.throws(() => slots.take('greedy'), { code: 'concurrency_limit_exceeded' })
  slots.take('b')
  slots.take('b')
  slots.take('c')
  slots.take('d')
  t.throws(() => slots.take('newcomer'), { code: 'overloaded' })
  for (const giveBack of back) giveBack()
  t.equal(pool.used, 4)
  slots.take('newcomer')
})
