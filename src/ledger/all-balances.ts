// What all accounts have together, and how many have little left, for two gauges. All accounts are looked at, a hundred
// at a time, as the debtors are.

import type { Redis } from '../redis/client.ts'
import { keys } from '../redis/keys.ts'
import { refsWithRests } from './walk.ts'

const chunk = 100

/**
 * `balance`: of all accounts, also of suspended ones; what is held is a part of it.
 * `low`: active accounts whose balance, less what is held, is below `threshold`: a top-up would help them. Budgets do
 * not count, because they renew themselves. An allowance counts as it was last booked: the next request renews it.
 */
export async function sumBalances(redis: Redis, threshold: number) {
  let low = 0
  let balance = 0
  for await (const refs of refsWithRests(redis, chunk)) {
    const rows = await Promise.all(
      refs.map((ref) => redis.hmget(keys.account(ref), 'status', 'granted', 'spent', 'reserved')),
    )
    for (const [status, ...sums] of rows) {
      const [granted = 0, spent = 0, reserved = 0] = sums.map(Number)
      balance += granted - spent
      if (status === 'active' && granted - spent - reserved < threshold) low++
    }
  }
  return { balance, low }
}
