// What a backend's status means to the client (docs/errors.md): a backend's 4xx about the request pass through, masked.
// Any other status becomes a gateway error, because a backend's 401 or 402 must not look like the gateway's own.

import type { Target } from '../config/config.ts'
import { GatewayError, isOutOfFiles } from '../errors.ts'
import type { Answer } from '../exchange.ts'
import { hasError, isError, saysLoading } from '../backend/report.ts'
import { wordsIn } from '../backend/said.ts'
import { mask } from '../backend/secrets.ts'
import { field, parsed } from '../http/json/field.ts'

/** Bytes of an error body that are read; more is not relayed. */
export const errorBodyBytes = 256 * 1024

const clientsFault = new Set([400, 404, 413, 422])
const busy = new Set([503, 529])
/** A proxy in front of the backend has waited in vain: 504, and 524 of Cloudflare. */
const late = new Set([504, 524])

/** The `cause` of a GatewayError that was made from a backend's status. */
class BackendStatus extends Error {
  override readonly name = 'BackendStatus'
  readonly status: number
  /** The backend says that it loads its model. */
  readonly isLoading: boolean
  /** Its words, if they are about itself, for the log alone. */
  readonly said: string

  constructor(status: number, { isLoading, said }: Heard) {
    super(`the backend answered ${status}${said === '' ? '' : `: ${said}`}`)
    this.status = status
    this.isLoading = isLoading
    this.said = said
    // There may be thousands of these in the log, and a stack would say nothing about the backend.
    delete this.stack
  }
}

interface Heard {
  readonly isLoading: boolean
  readonly said: string
}

/** Refusals of our key, for our limits, or of everybody. What a backend says with any other status may quote the request: with 403, what a filter has found in it. */
const aboutItself = new Set([401, 402, 429, 503, 529])

/** For the log: what the backend said when it refused; undefined if it said nothing that may be logged. */
export function saidIn({ cause }: Error): string | undefined {
  return (cause instanceof BackendStatus && cause.said) || undefined
}

/** What the failure of an attempt says about its target; undefined: nothing. */
export function verdictOn(error: unknown): 'failed' | 'suspected' | 'loads' | undefined {
  if (!isForAnother(error) && !isTimeout(error)) return undefined
  const { code, cause } = error
  if (cause instanceof BackendStatus && cause.isLoading) return 'loads'
  if (code === 'upstream_rate_limited' || isOutOfFiles(cause)) return undefined
  return code === 'upstream_unavailable' ? 'failed' : 'suspected'
}

export function isTimeout(error: unknown): error is GatewayError {
  return error instanceof GatewayError && error.code === 'upstream_timeout'
}

/** Whether another target may succeed. A time-out is another matter: a second target would be a second generation. */
export function isForAnother(error: unknown): error is GatewayError {
  if (!(error instanceof GatewayError)) return false
  const { code, cause, source } = error
  // There may be a connection to another one.
  if (isOutOfFiles(cause)) return true
  if (source !== 'backend') return false
  if (code === 'upstream_timeout' || code === 'upstream_auth_error') return false
  return !(cause instanceof BackendStatus) || cause.status >= 500 || cause.status === 429
}

interface Refusal {
  /** Undefined when it was too large, or cut off. */
  readonly body: Buffer | undefined
  readonly target: Target
  /** Whether the request makes the backend generate. */
  readonly generates: boolean
}

/** Returns the answer to relay, or throws the error that the client gets instead. */
export function relayedRefusal(
  status: number,
  headers: Readonly<Record<string, unknown>>,
  { body, target, generates }: Refusal,
): Answer {
  if (clientsFault.has(status) && body && hasError(body.toString())) {
    const headers = { 'Content-Type': 'application/json' }
    return { status, headers, body: mask(body, target) }
  }
  const isLoading = saysLoading(status, { headers, body })
  const said = body && aboutItself.has(status) ? wordsIn(body, target) : ''
  throw errorFor(status, headers, { isLoading, said, generates })
}

/** The status that an error names, if the error came after a 200; 500 when it names none. */
export function statusOfError(data: string): number {
  const error = isErrorBody(data) ? field(parsed(data), 'error') : undefined
  const said = [field(error, 'code'), field(error, 'status')].map(Number)
  return said.find((status) => status >= 400 && status <= 599) ?? 500
}

/** Whether an error came after a 200, in place of an answer or an event. */
export function isErrorBody(data: string): boolean {
  return data.length <= errorBodyBytes && isError(data)
}

function errorFor(
  status: number,
  headers: Readonly<Record<string, unknown>>,
  { generates, ...heard }: Heard & Pick<Refusal, 'generates'>,
): GatewayError {
  const source = 'backend'
  const retryAfterMs = retryAfter(headers['retry-after'])
  const cause = new BackendStatus(status, heard)
  if (status === 401 || status === 403) {
    return new GatewayError('upstream_auth_error', { source, cause })
  }
  if (status === 429)
    return new GatewayError('upstream_rate_limited', { source, cause, retryAfterMs })
  if (busy.has(status))
    return new GatewayError('upstream_unavailable', { source, cause, retryAfterMs })
  if (late.has(status))
    return new GatewayError('upstream_timeout', { source, cause, retry: !generates })
  return new GatewayError('upstream_error', { source, cause })
}

/** Milliseconds from a number of seconds, at most an hour. A date, nonsense or nothing counts as one second. */
function retryAfter(value: unknown): number {
  const seconds = typeof value === 'string' && /^\d{1,6}$/.test(value) ? Number(value) : 1
  return Math.min(Math.max(1, seconds), 3600) * 1000
}
