// What a call can reject with: one class a family of statuses, made from the server's own words. Promises that no
// error carries the API key. Decides only whether an error is worth another attempt; the waiting is retry.ts.

/** What every error of this library is. Abort reasons are the caller's own, and pass as they are. */
export class TollgateError extends Error {
  override readonly name: string = 'TollgateError'
  /** What a stream had said until it failed: the text of choice 0, up to 8 MiB of it. */
  partialText: string | null = null
}

/** No answer: refused, lost, not to be found. */
export class ConnectionError extends TollgateError {
  override readonly name: string = 'ConnectionError'
  /** false: the request surely reached nobody. */
  readonly isReached: boolean

  /** @internal */
  constructor(message: string, { cause, isReached = true }: Lost = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.isReached = isReached
  }
}

/** @internal */
interface Lost {
  readonly cause?: unknown
  readonly isReached?: boolean
}

/** Nothing came for as long as a time-out allows. */
export class TimeoutError extends ConnectionError {
  override readonly name = 'TimeoutError'
}

/** A stream or a download that ended before its end. What came is in `partialText`. */
export class IncompleteStreamError extends TollgateError {
  override readonly name = 'IncompleteStreamError'
}

export interface Problem {
  readonly message: string
  /** HTTP status; null in a stream that had begun. */
  readonly status: number | null
  /** What to switch on: `insufficient_balance`, `session_busy`, … */
  readonly code: string | null
  readonly type: string | null
  /** The field at fault. */
  readonly param: string | null
  /** Finds the line in the gateway's log. */
  readonly requestId: string | null
  /** Seconds, where the server says when. */
  readonly retryAfter: number | null
  /** Whether the same call may succeed later. */
  readonly isRetriable: boolean
}

/** The server's refusal, or the error that ended a stream. */
export class APIError extends TollgateError implements Problem {
  override readonly name: string = 'APIError'
  readonly status: number | null
  readonly code: string | null
  readonly type: string | null
  readonly param: string | null
  readonly requestId: string | null
  readonly retryAfter: number | null
  readonly isRetriable: boolean

  constructor(problem: Problem) {
    super(problem.message)
    this.status = problem.status
    this.code = problem.code
    this.type = problem.type
    this.param = problem.param
    this.requestId = problem.requestId
    this.retryAfter = problem.retryAfter
    this.isRetriable = problem.isRetriable
  }
}

/** 400, and any other 4xx that has no class of its own. */
export class BadRequestError extends APIError {
  override readonly name = 'BadRequestError'
}

/** 401: no key, or one that is wrong, revoked or expired. */
export class AuthenticationError extends APIError {
  override readonly name = 'AuthenticationError'
}

/** 402: the account has to be topped up. */
export class InsufficientBalanceError extends APIError {
  override readonly name = 'InsufficientBalanceError'
}

/** 403: the key lacks the scope, the model or the quota. */
export class PermissionDeniedError extends APIError {
  override readonly name = 'PermissionDeniedError'
}

/** 404 and 410: not there, or no longer. */
export class NotFoundError extends APIError {
  override readonly name = 'NotFoundError'
}

/** 409: `session_busy` most of the time. */
export class ConflictError extends APIError {
  override readonly name = 'ConflictError'
}

/** 429, after the retries. */
export class RateLimitError extends APIError {
  override readonly name = 'RateLimitError'
}

/** 5xx, after the retries. */
export class ServerError extends APIError {
  override readonly name = 'ServerError'
}

type APIErrorClass = new (problem: Problem) => APIError

const byStatus: Readonly<Record<number, APIErrorClass>> = {
  401: AuthenticationError,
  402: InsufficientBalanceError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  410: NotFoundError,
  429: RateLimitError,
}

const byType: Readonly<Record<string, APIErrorClass>> = {
  authentication_error: AuthenticationError,
  billing_error: InsufficientBalanceError,
  permission_error: PermissionDeniedError,
  not_found_error: NotFoundError,
  gone_error: NotFoundError,
  conflict_error: ConflictError,
  rate_limit_error: RateLimitError,
  invalid_request_error: BadRequestError,
  request_too_large: BadRequestError,
  server_error: ServerError,
  upstream_error: ServerError,
  overloaded_error: ServerError,
  timeout_error: ServerError,
}

export interface Refusal {
  readonly status: number
  /** As it came: JSON of the API, or anything. */
  readonly text: string
  readonly headers: Headers
  readonly retryAfter: number | null
}

export function errorOfAnswer({ status, text, headers, retryAfter }: Refusal): APIError {
  const told = tellingOf(parsed(text))
  const code = told.code
  const said = headers.get('x-should-retry')
  const isRetriable =
    status === 408 ||
    status === 429 ||
    status >= 500 ||
    (status === 409 && code === 'idempotency_in_progress')
  const problem: Problem = {
    ...told,
    message: told.message ?? `The server answered with status ${status}.`,
    status,
    requestId: headerOf(headers, 'x-request-id') ?? told.requestId,
    retryAfter,
    isRetriable: said === 'true' || (said !== 'false' && isRetriable),
  }
  const isClient = status >= 400 && status < 500
  const Class =
    byStatus[status] ?? (isClient ? BadRequestError : status >= 500 ? ServerError : APIError)
  return new Class(problem)
}

/** Of a redirect that the runtime does not show. */
export function errorOfRedirect(): APIError {
  return new APIError({
    ...tellingOf(undefined),
    message: 'The server redirects, and is not followed. Is the base URL that of a Tollgate?',
    status: null,
    retryAfter: null,
    isRetriable: false,
  })
}

/** Of an event that has an `error`. */
export function errorOfEvent(json: object, requestId: string | null): APIError {
  const told = tellingOf(json)
  const problem: Problem = {
    ...told,
    message:
      told.message ?? `The stream ended with an error: ${told.code ?? told.type ?? 'unknown'}.`,
    status: null,
    requestId: told.requestId ?? requestId,
    retryAfter: null,
    isRetriable: false,
  }
  const Class = Object.hasOwn(byType, told.type ?? '') ? byType[told.type ?? ''] : undefined
  return new (Class ?? APIError)(problem)
}

interface Told {
  readonly message: string | null
  readonly type: string | null
  readonly code: string | null
  readonly param: string | null
  readonly requestId: string | null
}

const maxMessage = 4096

function tellingOf(body: unknown): Told {
  const { error, request_id: requestId } = fieldsOf(body)
  const { message, type, code, param } =
    typeof error === 'string' ? { message: error } : fieldsOf(error)
  return {
    message: textOf(message)?.slice(0, maxMessage) ?? null,
    type: textOf(type),
    code: textOf(code),
    param: textOf(param),
    requestId: typeof requestId === 'string' ? textOf(requestId) : null,
  }
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

/** As it may be shown. */
export function headerOf(headers: Headers, name: string): string | null {
  return textOf(headers.get(name))
}

/** Some backends have numbers as codes, and some servers repeat what they were sent. */
function textOf(value: unknown): string | null {
  if (typeof value === 'string') return value.replace(/tg_live_\w+/gi, '***') || null
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : null
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
