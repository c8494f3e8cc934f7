// The error of a request that admit.lua has refused, with what its client can do next.

import { GatewayError } from '../errors.ts'
import type { ErrorDetails } from '../errors.ts'
import { unavailable } from '../redis/scripts.ts'
import { wholeAmount } from './price.ts'
import { minuteMs } from './replies.ts'
import type { AdmitRefused } from './replies.ts'

/** What the refusals tell of the request. */
interface Wanted {
  readonly min: number
  neverFits?(limit: number): Pick<ErrorDetails, 'param' | 'message'>
}

export function refusalOf(refused: AdmitRefused, request: Wanted): GatewayError {
  const { word, limits, caller, mostTokens } = refused
  const details = { limits, caller }
  switch (word) {
    case 'released':
      return unavailable(new Error('The hold has ended before it was made'))
    case 'rate_limit_exceeded':
      return tooMany(refused)
    case 'concurrency_limit_exceeded':
      return new GatewayError(word, { ...details, retryAfterMs: 1000 })
    case 'insufficient_balance':
      return shortage(refused, wholeAmount(request.min))
    case 'budget_exceeded':
      return overBudget(refused, wholeAmount(request.min))
    case 'invalid_parameter':
      return new GatewayError(word, { ...details, ...request.neverFits?.(mostTokens) })
    default:
      return new GatewayError(word, details)
  }
}

function tooMany({ limits, caller, which }: AdmitRefused): GatewayError {
  const count = which === 'tokens' ? limits?.tokens : limits?.requests
  const message = `The limit of ${which} a minute is reached. Wait as Retry-After says.`
  const retryAfterMs = count?.resetMs ?? minuteMs
  return new GatewayError('rate_limit_exceeded', { limits, message, retryAfterMs, caller })
}

/** While the account owes something, nothing is available. */
function shortage({ limits, caller, available, owed }: AdmitRefused, needed: number): GatewayError {
  const message = `The account owes ${owed} tokens for earlier requests. Top it up by more than that.`
  return new GatewayError('insufficient_balance', {
    limits,
    caller,
    shortage: { available, needed, owed },
    ...(owed > 0 && { message }),
  })
}

function overBudget(
  { limits, caller, which, available, owed, renewsAtMs }: AdmitRefused,
  needed: number,
): GatewayError {
  const at = new Date(renewsAtMs).toISOString().replace('.000Z', 'Z')
  const message = `The budget of the ${which} does not cover this request. It is renewed at ${at}.`
  const renews_at = Math.floor(renewsAtMs / 1000)
  const shortage = { available, needed, owed, renews_at }
  return new GatewayError('budget_exceeded', { limits, caller, message, shortage })
}
