// How many transfers an account may have in this process at a time. Each takes memory, or a connection to the store, for
// as long as its client likes: rates alone do not bound how many there are. All accounts share what there is, so none of
// them keeps the others out.

import { GatewayError } from '../errors.ts'
import type { SharedPool } from './shared-pool.ts'

export interface Places {
  /** Throws `concurrency_limit_exceeded`, `overloaded`. What it answers gives the place back; calling it again changes nothing. */
  take(ref: string): () => void
}

export interface PlacesOptions {
  /** Of one account, also where more are free. */
  readonly most?: number
  /** One is taken for each place. */
  readonly pool: SharedPool
}

export function createPlaces({ most = Infinity, pool }: PlacesOptions): Places {
  const taken = new Map<string, number>()
  return {
    take(ref) {
      const others = taken.get(ref) ?? 0
      if (others >= most || !pool.take(ref, 1)) throw refusal(others)
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

/** Who has none and gets none meets others' load. */
function refusal(others: number): GatewayError {
  if (others === 0) return new GatewayError('overloaded')
  const message = `No more than the ${others} of these that run may run now. Wait for one to end.`
  return new GatewayError('concurrency_limit_exceeded', { message, retryAfterMs: 1000 })
}
