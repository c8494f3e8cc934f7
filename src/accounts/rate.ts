// Limits how often something may be done. Requests a minute on routes without a hold are counted in fixed windows in
// Redis, refused ones too: by the script that checks the key (ledger/lua/caller.lua), and for repetitions of a send by
// rate-limiter-flexible. admit.lua counts on routes with a hold, without those that it refuses. Failures and refusals are
// counted in this process, in a map that has a bound: the library's memory has none.

import { readFileSync } from 'node:fs'
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { Redis } from '../redis/client.ts'
import { GatewayError } from '../errors.ts'
import type { CountedRequest, LimitState } from '../errors.ts'
import { networkOf } from '../http/client-address.ts'
import { keys } from '../redis/keys.ts'

const folder = new URL('lua/', import.meta.url)
const script = ['../../redis/scripts.lua', 'window.lua', 'rate.lua']
  .map((name) => readFileSync(new URL(name, folder), 'utf8'))
  .join('')

/** Counts one request of an account against `perMinute`. Throws rate_limit_exceeded, or ledger_unavailable when Redis is away. */
export function createRequestRate(redis: Redis) {
  const limiters = new Map<number, RateLimiterRedis>()
  const limiterOf = (points: number) => {
    let limiter = limiters.get(points)
    if (!limiter) {
      limiter = new RateLimiterRedis({
        storeClient: redis,
        keyPrefix: '',
        points,
        duration: 60,
        customIncrTtlLuaScript: script,
      })
      limiters.set(points, limiter)
    }
    return limiter
  }
  return async (ref: string, perMinute: number): Promise<LimitState> => {
    try {
      return judge(await limiterOf(perMinute).consume(keys.requests(ref)), perMinute)
    } catch (refused) {
      if (refused instanceof RateLimiterRes) return judge(refused, perMinute)
      throw new GatewayError('ledger_unavailable', { cause: refused })
    }
  }
}

/** Throws rate_limit_exceeded. */
export function judgeRequests({ count, resetMs }: CountedRequest, limit: number): LimitState {
  const state = { limit, remaining: Math.max(0, limit - count), resetMs }
  if (count <= limit) return state
  throw new GatewayError('rate_limit_exceeded', {
    limits: { requests: state },
    retryAfterMs: resetMs,
  })
}

function judge({ consumedPoints, msBeforeNext }: RateLimiterRes, limit: number): LimitState {
  return judgeRequests({ count: consumedPoints, resetMs: msBeforeNext }, limit)
}

/** How many units are left, and since when. */
interface Level {
  left: number
  atMs: number
}

/** A caller who keeps coming with new keys only pushes out the oldest keys. */
const maxKeys = 10_000

/** What a rate counts, by key. A new rate takes it over when the configuration has changed. */
export type Levels = Map<string, Level>

export type Rate = ReturnType<typeof createRate>

/**
 * So many units a minute for each key, with a burst of as many; used units come back evenly. In this process' memory
 * alone: the rate is asked at every request, so it must cost nothing.
 */
export function createRate(perMinute: number, levels: Levels, now = () => performance.now()) {
  const perMs = perMinute / 60_000
  const leftOf = (key: string) => {
    const level = levels.get(key)
    return level ? Math.min(perMinute, level.left + (now() - level.atMs) * perMs) : perMinute
  }
  /** Uses units; the rest may fall below zero. */
  const use = (key: string, amount: number): void => {
    const left = leftOf(key)
    levels.delete(key)
    levels.set(key, { left: left - amount, atMs: now() })
    if (levels.size > maxKeys) levels.delete(levels.keys().next().value ?? '')
  }
  /** Returns the error for a key that has no unit left. `what` is a sentence that says what came too often. */
  const refusal = (key: string, what: string): GatewayError | undefined => {
    const left = leftOf(key)
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

/** `what` is the sentence that a client reads whose address has failed too often. */
export function createGuard(
  failuresPerMinute: number,
  { what, levels }: { readonly what: string; readonly levels: Levels },
): Guard {
  const failures = createRate(failuresPerMinute, levels)
  return (address) => {
    const network = networkOf(address)
    const error = failures.refusal(network, what)
    if (!error) failures.use(network, 1)
    return error
  }
}
