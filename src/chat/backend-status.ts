// What a backend's status means to the client (docs/errors.md): its own 4xx about the request pass through, masked; all
// else becomes one of our errors, since a backend's 401 or 402 must not look like ours.

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

/** The answer to relay, or throws what the client is told instead. */
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

/** What an error that came behind 200 would have had for a status; 500 where it does not say. */
export function statusOfError(data: string): number {
  const error = isErrorBody(data) ? field(parsed(data), 'error') : undefined
  const said = [field(error, 'code'), field(error, 'status')].map(Number)
  return said.find((status) => status >= 400 && status <= 599) ?? 500
}

/** Behind 200, where an answer or an event was expected. */
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

/** Seconds or nothing; a date or nonsense counts as a second. At most an hour. */
function retryAfter(value: unknown): number {
  const seconds = typeof value === 'string' && /^\d{1,6}$/.test(value) ? Number(value) : 1
  return Math.min(Math.max(1, seconds), 3600) * 1000
}
