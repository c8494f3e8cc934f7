// What may be done how often. Requests a minute on routes without a hold are counted by rate-limiter-flexible, in fixed
// windows in Redis, under the account's hash tag; it charges refused requests too, which is why routes with a hold count
// inside admit.lua instead. Failures and refusals are counted in this process, in a map that has a bound: the library's
// memory has none.

import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { Redis } from 'ioredis'
import { GatewayError } from '../errors.ts'
import { networkOf } from '../http/client-address.ts'
import { limitHeaders } from '../http/limit-headers.ts'
import type { LimitState } from '../http/limit-headers.ts'
import { keys } from '../redis/redis.ts'

/** Counts one request of an account against `perMinute`. Throws rate_limit_exceeded, or ledger_unavailable when Redis is away. */
export function createRequestRate(redis: Redis) {
  const limiters = new Map<number, RateLimiterRedis>()
  const limiterOf = (points: number) => {
    let limiter = limiters.get(points)
    if (!limiter) {
      limiter = new RateLimiterRedis({ storeClient: redis, keyPrefix: '', points, duration: 60 })
      limiters.set(points, limiter)
    }
    return limiter
  }
  return async (ref: string, perMinute: number): Promise<LimitState> => {
    try {
      return stateOf(await limiterOf(perMinute).consume(keys.rate(ref)), perMinute)
    } catch (refused) {
      if (!(refused instanceof RateLimiterRes)) {
        throw new GatewayError('ledger_unavailable', { cause: refused })
      }
      const headers = limitHeaders({ requests: stateOf(refused, perMinute) })
      throw new GatewayError('rate_limit_exceeded', { headers, retryAfterMs: refused.msBeforeNext })
    }
  }
}

function stateOf(result: RateLimiterRes, limit: number): LimitState {
  return {
    limit,
    remaining: Math.max(0, result.remainingPoints),
    resetMs: Math.max(0, result.msBeforeNext),
  }
}

/** So many of something a minute for each key, with a burst of as many; what is used comes back evenly. */
export interface Allowance {
  /** Uses some; may go below nothing. */
  use(key: string, amount: number): void
  /** Milliseconds until there is something again; 0 where there is. Synchronous. */
  waitMs(key: string): number
}

interface Level {
  left: number
  atMs: number
}

/** Whoever comes with new keys without end only makes the oldest be forgotten. */
const maxKeys = 10_000

/** In this process' memory alone: asked for every request, it must cost nothing. */
export function createAllowance(perMinute: number, now = () => performance.now()): Allowance {
  const levels = new Map<string, Level>()
  const perMs = perMinute / 60_000
  const leftOf = ({ left, atMs }: Level) => Math.min(perMinute, left + (now() - atMs) * perMs)
  return {
    use(key, amount) {
      const level = levels.get(key)
      const left = level ? leftOf(level) : perMinute
      levels.delete(key)
      levels.set(key, { left: left - amount, atMs: now() })
      if (levels.size > maxKeys) levels.delete(levels.keys().next().value ?? '')
    },
    waitMs(key) {
      const level = levels.get(key)
      const left = level ? leftOf(level) : perMinute
      return left >= 1 ? 0 : Math.ceil((1 - left) / perMs)
    },
  }
}

/** Counts failures by address; says whether an address has failed too often. Never asked of those who succeed. */
export interface Guard {
  /** Milliseconds until a failure is answered plainly again; 0 while it is, and then it counts. Synchronous. */
  fail(address: string): number
}

export function createGuard(failuresPerMinute: number): Guard {
  const failures = createAllowance(failuresPerMinute)
  return {
    fail(address) {
      const network = networkOf(address)
      const waitMs = failures.waitMs(network)
      if (waitMs === 0) failures.use(network, 1)
      return waitMs
    },
  }
}
