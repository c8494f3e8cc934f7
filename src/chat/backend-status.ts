// What a backend's status means to the client (docs/errors.md): a backend's 4xx about the request pass through, masked.
// Any other status becomes a gateway error, because a backend's 401 or 402 must not look like the gateway's own.

import type { Target } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import type { Answer } from '../exchange.ts'
import { hasError, isError } from '../backend/report.ts'
import { mask } from '../backend/secrets.ts'
import { field, parsed } from '../http/json/field.ts'

/** Bytes of an error body that are read; more is not relayed. */
export const errorBodyBytes = 256 * 1024

const clientsFault = new Set([400, 404, 413, 422])
const busy = new Set([503, 529])

/** Returns the answer to relay, or throws the error that the client gets instead. */
export function relayedRefusal(
  status: number,
  headers: Readonly<Record<string, unknown>>,
  { body, target }: { body: Buffer | undefined; target: Target },
): Answer {
  if (clientsFault.has(status) && body && hasError(body.toString())) {
    const headers = { 'Content-Type': 'application/json' }
    return { status, headers, body: mask(body, target) }
  }
  throw errorFor(status, headers)
}

/** The status that an error names which came after a 200; 500 when it names none. */
export function statusOfError(data: string): number {
  const error = isErrorBody(data) ? field(parsed(data), 'error') : undefined
  const said = [field(error, 'code'), field(error, 'status')].map(Number)
  return said.find((status) => status >= 400 && status <= 599) ?? 500
}

/** Whether an error came after a 200, in place of an answer or an event. */
export function isErrorBody(data: string): boolean {
  return data.length <= errorBodyBytes && isError(data)
}

function errorFor(status: number, headers: Readonly<Record<string, unknown>>): GatewayError {
  const source = 'backend'
  const retryAfterMs = retryAfter(headers['retry-after'])
  const cause = new Error(`the backend answered ${status}`)
  if (status === 401 || status === 403) {
    return new GatewayError('upstream_auth_error', { source, cause })
  }
  if (status === 429)
    return new GatewayError('upstream_rate_limited', { source, cause, retryAfterMs })
  if (busy.has(status))
    return new GatewayError('upstream_unavailable', { source, cause, retryAfterMs })
  return new GatewayError('upstream_error', { source, cause })
}

/** Milliseconds from a number of seconds, at most an hour. A date, nonsense or nothing counts as one second. */
function retryAfter(value: unknown): number {
  const seconds = typeof value === 'string' && /^\d{1,6}$/.test(value) ? Number(value) : 1
  return Math.min(Math.max(1, seconds), 3600) * 1000
}
