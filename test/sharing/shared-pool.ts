import t from 'tap'
import { SharedPool } from '../../src/sharing/shared-pool.ts'

t.test('one account alone gets half, and what it gives back is free again', async (t) => {
  const pool = new SharedPool(100)
  t.equal(takeAll(pool, 'a'), 50)
  t.equal(pool.take('a', 1), false)
  pool.give('a', 50)
  t.equal(pool.used, 0)
  t.equal(takeAll(pool, 'a'), 50)
})

t.test('greedy accounts leave a newcomer as much as each of them got last', async (t) => {
  const pool = new SharedPool(1000)
  for (const ref of ['a', 'b', 'c', 'd']) takeAll(pool, ref)
  t.equal(takeAll(pool, 'newcomer') > 0, true)
  t.equal(pool.used < 1000, true)
})

t.test('an amount that is larger than the share is refused whole', async (t) => {
  const pool = new SharedPool(100)
  t.equal(pool.take('a', 51), false)
  t.equal(pool.used, 0)
  t.equal(pool.take('a', 50), true)
})

function takeAll(pool: SharedPool, ref: string): number {
  let taken = 0
  while (pool.take(ref, 1)) taken++
  return taken
}
