// Bounds how many transfers an account may have in this process at a time. Each transfer takes memory, or a connection
// to the store, for as long as its client likes: rates alone do not bound how many run. All accounts share one pool, so
// that no account can keep the others out.

import { GatewayError } from '../errors.ts'
import type { SharedPool } from './shared-pool.ts'

export type Slots = ReturnType<typeof createSlots>

export interface SlotsOptions {
  /** The most slots of one account, even if more are free. */
  readonly most?: number
  /** What a slot is for, in the message of a refusal. */
  readonly what?: string
  /** Each slot takes 1 from this pool. */
  readonly pool: SharedPool
  /** How many each account has; given when several limits, one after the other, count the same slots. */
  readonly taken?: Map<string, number>
}

export function createSlots({
  most = Infinity,
  what = 'of these',
  pool,
  taken = new Map(),
}: SlotsOptions) {
  return {
    /** Takes a slot, and returns a function that gives it back; calling that again has no further effect. Throws `concurrency_limit_exceeded` or `overloaded`. */
    take(ref: string): () => void {
      const others = taken.get(ref) ?? 0
      if (others >= most || !pool.take(ref, 1)) throw refusal(others, what)
      taken.set(ref, others + 1)
      let isTaken = true
      return () => {
        if (!isTaken) return
        isTaken = false
        pool.give(ref, 1)
        const left = (taken.get(ref) ?? 1) - 1
        if (left === 0) taken.delete(ref)
        else taken.set(ref, left)
      }
    },
  }
}

/** An account that has no slot and gets none is refused because of the load of others, hence `overloaded`. */
function refusal(others: number, what: string): GatewayError {
  if (others === 0) return new GatewayError('overloaded')
  const message = `You have ${others} ${what} running, and no more may run now. Wait for one to end.`
  return new GatewayError('concurrency_limit_exceeded', { message, retryAfterMs: 1000 })
}
