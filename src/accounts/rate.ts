// Limits how often something may be done. Requests a minute on routes without a hold are counted by
// rate-limiter-flexible, in fixed windows in Redis, under the account's hash tag. The library counts refused requests,
// too, which is why admit.lua itself counts on routes with a hold. Failures and refusals are counted in this process,
// in a map that has a bound: the library's memory has none.

import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { Redis } from '../redis/client.ts'
import { GatewayError } from '../errors.ts'
import type { LimitState } from '../errors.ts'
import { networkOf } from '../http/client-address.ts'
import { keys } from '../redis/keys.ts'

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
      const limits = { requests: stateOf(refused, perMinute) }
      throw new GatewayError('rate_limit_exceeded', { limits, retryAfterMs: refused.msBeforeNext })
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

/** How much is left of an allowance, and since when. */
interface Level {
  left: number
  atMs: number
}

/** A caller who keeps coming with new keys only pushes out the oldest keys. */
const maxKeys = 10_000

/** What an allowance counts, by key: a new allowance goes on with it when its rate was changed. */
export type Levels = Map<string, Level>

export type Allowance = ReturnType<typeof createAllowance>

/**
 * So many units a minute for each key, with a burst of as many; used units come back evenly. In this process' memory
 * alone: the allowance is asked for every request, so it must cost nothing.
 */
export function createAllowance(
  perMinute: number,
  levels: Levels = new Map(),
  now = () => performance.now(),
) {
  const perMs = perMinute / 60_000
  const leftOf = ({ left, atMs }: Level) => Math.min(perMinute, left + (now() - atMs) * perMs)
  /** Uses units; the rest may fall below zero. */
  const use = (key: string, amount: number): void => {
    const level = levels.get(key)
    const left = level ? leftOf(level) : perMinute
    levels.delete(key)
    levels.set(key, { left: left - amount, atMs: now() })
    if (levels.size > maxKeys) levels.delete(levels.keys().next().value ?? '')
  }
  /** The error for who asks while no unit is left. `what` is a sentence: of what there were too many. */
  const refusal = (key: string, what: string): GatewayError | undefined => {
    const level = levels.get(key)
    const left = level ? leftOf(level) : perMinute
    return left < 1 ? tooOften(Math.ceil((1 - left) / perMs), what) : undefined
  }
  const take = (key: string, what: string): void => {
    const error = refusal(key, what)
    if (error) throw error
    use(key, 1)
  }
  return { use, refusal, take }
}

function tooOften(retryAfterMs: number, what: string): GatewayError {
  const message = `${what} Wait as Retry-After says.`
  return new GatewayError('rate_limit_exceeded', { retryAfterMs, message })
}

/**
 * Counts a failure of an address. Returns the error to answer instead when the address has failed too often; failures are
 * not counted then. Not called for requests that succeed.
 */
export type Guard = (address: string) => GatewayError | undefined

/** `what` is the sentence for who has failed too often. */
export function createGuard(
  failuresPerMinute: number,
  { what, levels }: { readonly what: string; readonly levels?: Levels },
): Guard {
  const failures = createAllowance(failuresPerMinute, levels)
  return (address) => {
    const network = networkOf(address)
    const error = failures.refusal(network, what)
    if (!error) failures.use(network, 1)
    return error
  }
}
