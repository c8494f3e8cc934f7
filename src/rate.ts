// Fixed-window counters by rate-limiter-flexible: requests a minute on routes without a hold (in Redis, under the
// account's hash tag), and a guard against guessing by address (in this process). It charges refused requests too,
// which is why routes with a hold count inside admit.lua instead.

import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { Redis } from 'ioredis'
import { GatewayError } from './errors.ts'
import { limitHeaders } from './http/limit-headers.ts'
import type { LimitState } from './http/limit-headers.ts'
import { keys } from './redis.ts'

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

/** Counts failures by address; says whether an address has failed too often this minute. Never asked of those who succeed. */
export interface Guard {
  /** Milliseconds until failures are answered plainly again; 0 while under the limit. Synchronous. */
  fail(address: string): number
}

export function createGuard(failuresPerMinute: number): Guard {
  const limiter = new RateLimiterMemory({ points: failuresPerMinute, duration: 60 })
  const blockedUntil = new Map<string, number>()
  const unblock = (address: string) => blockedUntil.delete(address)
  return {
    fail(address) {
      const left = (blockedUntil.get(address) ?? 0) - Date.now()
      if (left > 0) return left
      unblock(address)
      limiter.consume(address).catch((refused: unknown) => {
        if (!(refused instanceof RateLimiterRes)) return
        blockedUntil.set(address, Date.now() + refused.msBeforeNext)
        setTimeout(unblock, refused.msBeforeNext, address).unref()
      })
      return 0
    },
  }
}
