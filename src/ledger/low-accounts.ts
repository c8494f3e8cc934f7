// How many accounts have little left, for a gauge. All accounts are looked at, a thousand at a time, as the debtors are.

import type { Redis } from '../redis/client.ts'
import { keys } from '../redis/keys.ts'
import { refsInGroups } from './audit.ts'

const chunk = 1000

/**
 * Accounts that may spend and have fewer than `threshold` tokens of balance that nothing holds: whom a top-up would help.
 * So a budget that is used up does not count, since it renews itself; an allowance counts as it was last booked, since the
 * next request renews it. Suspended and deleted accounts do not count.
 */
export async function countLow(redis: Redis, threshold: number): Promise<number> {
  if (threshold === 0) return 0
  let count = 0
  for await (const refs of refsInGroups(redis, chunk)) {
    const rows = await Promise.all(
      refs.map((ref) => redis.hmget(keys.account(ref), 'status', 'granted', 'spent', 'reserved')),
    )
    count += rows.filter(([status, ...sums]) => {
      const [granted = 0, spent = 0, reserved = 0] = sums.map(Number)
      return status === 'active' && granted - spent - reserved < threshold
    }).length
  }
  return count
}
