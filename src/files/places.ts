// How many transfers an account may have in this process at a time. Each takes memory, or a connection to the store, for
// as long as its client likes: rates alone do not bound how many there are.

import { GatewayError } from '../errors.ts'

export interface Places {
  /** Throws `concurrency_limit_exceeded`. What it answers gives the place back; once counts. */
  take(ref: string): () => void
}

export function createPlaces(most: number): Places {
  const taken = new Map<string, number>()
  return {
    take(ref) {
      const others = taken.get(ref) ?? 0
      if (others >= most) {
        const message = `No more than ${most} of these may run at a time. Wait for one to end.`
        throw new GatewayError('concurrency_limit_exceeded', { message, retryAfterMs: 1000 })
      }
      taken.set(ref, others + 1)
      let isTaken = true
      return () => {
        if (!isTaken) return
        isTaken = false
        const left = (taken.get(ref) ?? 1) - 1
        if (left === 0) taken.delete(ref)
        else taken.set(ref, left)
      }
    },
  }
}
