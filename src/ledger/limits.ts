// How near an account and its key are to their limits: read from admit's reply.

import { GatewayError } from '../errors.ts'
import type { RefusedCaller } from '../errors.ts'
import type { Plan } from '../config/config.ts'
import { limitHeaders } from '../http/limit-headers.ts'
import type { LimitState, LimitStates } from '../http/limit-headers.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'

const minuteMs = 60_000

/** Positions 3 to 6 of admit's reply, granted or refused. */
export function limitsOf(reply: Reply): LimitStates {
  const resetMs = minuteMs - (reply.nowMs % minuteMs)
  const count = (at: number): LimitState | undefined => {
    const limit = numberAt(reply, at)
    return limit < 0 ? undefined : { limit, remaining: numberAt(reply, at + 1), resetMs }
  }
  return { requests: count(3), tokens: count(5) }
}

/** ARGV 4 of admit; `-` where there is no limit. */
export function planArgument(name: string, plan: Plan | undefined, model: string): string {
  const isAllowed = plan?.models.some((id) => id === '*' || id === model) ?? false
  const limit = (value: number | undefined) =>
    value !== undefined && Number.isSafeInteger(value) ? String(value) : '-'
  const { requestsPerMinute, tokensPerMinute, concurrency } = plan ?? {}
  const numbers = [requestsPerMinute, tokensPerMinute, concurrency].map(limit).join(' ')
  return `${isAllowed ? 1 : 0} ${numbers} ${name}`
}

/** Admit's refusal for a limit. */
export function limitError(
  code: 'rate_limit_exceeded' | 'concurrency_limit_exceeded',
  reply: Reply,
  caller: RefusedCaller | undefined,
): GatewayError {
  const limits = limitsOf(reply)
  const headers = limitHeaders(limits)
  const which = textAt(reply, 7)
  if (code === 'concurrency_limit_exceeded') {
    return new GatewayError(code, { headers, retryAfterMs: 1000, caller })
  }
  const count = which === 'tokens' ? limits.tokens : limits.requests
  const message = `The limit of ${which} a minute is reached. Wait as Retry-After says.`
  const retryAfterMs = count?.resetMs ?? minuteMs
  return new GatewayError(code, { headers, message, retryAfterMs, caller })
}
