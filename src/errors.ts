// GatewayError: the class of all refusals (their table is error-table.ts). Only http/reply.ts makes answers of them; in
// a stream that has begun they are events.

import { errorTable } from './error-table.ts'

export type ErrorSource = 'client' | 'gateway' | 'backend'

export type ErrorCode = keyof typeof errorTable

export interface ErrorDetails {
  /** Replaces the table's message. Goes to the client: no hosts, secrets or stacks. */
  readonly message?: string
  /** The body or query field at fault. */
  readonly param?: string
  readonly retryAfterMs?: number
  /** Extra answer headers, such as Allow. */
  readonly headers?: Readonly<Record<string, string>>
  /** Overrides the table's `retry`, for instance because a second try would be paid for again. */
  readonly retry?: boolean
  /** Sends 409 in place of the table's status: the request conflicts with the state of the resource. */
  readonly isConflict?: boolean
  readonly source?: ErrorSource
  /** For the log, never for the client. */
  readonly cause?: unknown
  /** The id of the message that the request conflicts with. */
  readonly messageId?: string
  /** How much money is missing; goes to the client. */
  readonly shortage?: Shortage
  /** What is wrong with the configuration; goes to the operator. */
  readonly problems?: readonly object[]
  /** How near the caller is to the limits per minute; http/reply.ts makes headers of it. */
  readonly limits?: LimitStates | undefined
  /** The caller that was refused, if the caller is known; for the log. */
  readonly caller?: RefusedCaller | undefined
}

/** Balance tokens. */
export interface Shortage {
  readonly available: number
  readonly needed?: number
  readonly owed: number
  /** When the budget that is used up is renewed; Unix seconds. */
  readonly renews_at?: number
}

export interface LimitState {
  readonly limit: number
  readonly remaining: number
  readonly resetMs: number
}

/** A request among those that its account has made in the same window. */
export interface CountedRequest {
  readonly count: number
  /** Until the window ends. */
  readonly resetMs: number
}

/** Limits per minute, of an account and its key together; one that does not exist is missing. */
export interface LimitStates {
  readonly requests?: LimitState | undefined
  readonly tokens?: LimitState | undefined
}

export interface RefusedCaller {
  readonly accountId: string
  readonly keyId: string
}

const conflict = { status: 409, type: 'conflict_error' }

export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  readonly code: ErrorCode
  readonly status: number
  readonly type: string
  readonly retry: boolean
  readonly param: string | undefined
  readonly retryAfterMs: number | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly source: ErrorSource
  readonly limits: LimitStates | undefined
  readonly caller: RefusedCaller | undefined
  readonly messageId: string | undefined
  readonly shortage: Shortage | undefined
  readonly problems: readonly object[] | undefined

  constructor(code: ErrorCode, details: ErrorDetails = {}) {
    const { retry, message, retryAfterMs, ...usual } = errorTable[code]
    const { status, type } = details.isConflict ? conflict : usual
    super(details.message ?? message, { cause: details.cause })
    this.code = code
    this.status = status
    this.type = type
    this.retry = details.retry ?? retry
    this.param = details.param
    const usualMs = retryAfterMs ?? (this.status === 503 ? 1000 : undefined)
    this.retryAfterMs = details.retryAfterMs ?? usualMs
    this.headers = details.headers ?? {}
    this.limits = details.limits
    this.caller = details.caller
    this.messageId = details.messageId
    this.shortage = details.shortage
    this.problems = details.problems
    this.source = details.source ?? (this.status >= 500 ? 'gateway' : 'client')
  }
}

/** Makes a GatewayError of anything that was thrown: an unknown error becomes `internal_error`, with its cause kept for the log. */
export function asGatewayError(thrown: unknown): GatewayError {
  return thrown instanceof GatewayError
    ? thrown
    : new GatewayError('internal_error', { cause: thrown })
}

/** The message of what was thrown; of several failures, the messages of all. */
export function messageOf(thrown: unknown): string {
  // Node throws one when a host has several addresses and none can be reached, with an error for each.
  if (thrown instanceof AggregateError) return thrown.errors.map(messageOf).join('; ')
  if (thrown instanceof SuppressedError) {
    return `${messageOf(thrown.suppressed)}; ${messageOf(thrown.error)}`
  }
  return thrown instanceof Error ? thrown.message : String(thrown)
}

/** The error's `code`, as Node's errors and our own have one; '' when it has none. */
export function codeOf(error: unknown): string {
  const isCoded = error instanceof Error && 'code' in error && typeof error.code === 'string'
  return isCoded ? String(error.code) : ''
}

export function hasCode(error: unknown, code: string): boolean {
  return codeOf(error) === code
}

/** This process, or this machine, has no file descriptor left: whoever was to be reached has no part in it. */
export function isOutOfFiles(error: unknown): boolean {
  return hasCode(error, 'EMFILE') || hasCode(error, 'ENFILE')
}

/** Node's codes for a server that was not reached. */
export const unreached: ReadonlySet<string> = new Set(
  'ECONNREFUSED ENOTFOUND EAI_AGAIN EHOSTUNREACH ENETUNREACH ETIMEDOUT'.split(' '),
)

/** The JSON body of an error answer, and of the error frame in a stream. */
export function errorBody(error: GatewayError, requestId: string): string {
  const { message, type, param = null, code, messageId: message_id, shortage, problems } = error
  return JSON.stringify({
    error: { message, type, param, code, ...shortage, problems },
    request_id: requestId,
    message_id,
  })
}
