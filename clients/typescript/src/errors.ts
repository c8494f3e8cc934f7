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
  /** The server's own words, for people. They may change. */
  readonly detail: string
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
  /** Whether the same call is worth another attempt; false too where that would be paid for twice. */
  readonly isRetriable: boolean
}

/** The server's refusal, or the error that ended a stream. Its `message` has the status, the code and the request id, too. */
export class APIError extends TollgateError implements Problem {
  override readonly name: string = 'APIError'
  readonly detail: string
  readonly status: number | null
  readonly code: string | null
  readonly type: string | null
  readonly param: string | null
  readonly requestId: string | null
  readonly retryAfter: number | null
  readonly isRetriable: boolean

  constructor(problem: Problem) {
    super(told(problem))
    this.detail = problem.detail
    this.status = problem.status
    this.code = problem.code
    this.type = problem.type
    this.param = problem.param
    this.requestId = problem.requestId
    this.retryAfter = problem.retryAfter
    this.isRetriable = problem.isRetriable
  }
}

/** `402 insufficient_balance: The balance … (request req_…)`: the same in all of our clients. */
function told({ status, code, type, detail, requestId }: Problem): string {
  const facts = [status, code ?? type].filter((fact) => fact !== null).join(' ')
  return `${facts && `${facts}: `}${detail}${requestId === null ? '' : ` (request ${requestId})`}`
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
  /** Of a call that makes the backend generate. */
  readonly isGenerated: boolean
}

export function errorOfAnswer(refusal: Refusal): APIError {
  const { status, text, headers, retryAfter } = refusal
  const about = aboutOf(parsed(text))
  const problem: Problem = {
    ...about,
    detail: about.detail ?? `The server answered with status ${status}.`,
    status,
    requestId: headerOf(headers, 'x-request-id') ?? about.requestId,
    retryAfter,
    isRetriable: isRetriable(refusal, about.code),
  }
  const isClient = status >= 400 && status < 500
  const Class =
    byStatus[status] ?? (isClient ? BadRequestError : status >= 500 ? ServerError : APIError)
  return new Class(problem)
}

function isRetriable({ status, headers, isGenerated }: Refusal, code: string | null): boolean {
  const said = headers.get('x-should-retry')
  if (said === 'true' || said === 'false') return said === 'true'
  if (status === 409) return code === 'idempotency_in_progress'
  // The backend may have generated all the while: another attempt would be paid for, too.
  if (status === 504) return !isGenerated
  return status === 408 || status === 429 || status >= 500
}

/** Of a redirect that the runtime does not show. */
export function errorOfRedirect(): APIError {
  return new APIError({
    ...aboutOf(undefined),
    detail: 'The server redirects, and is not followed. Is the base URL that of a Tollgate?',
    status: null,
    retryAfter: null,
    isRetriable: false,
  })
}

/** Of an event that has an `error`. */
export function errorOfEvent(json: object, requestId: string | null): APIError {
  const about = aboutOf(json)
  const problem: Problem = {
    ...about,
    detail: about.detail ?? 'The stream ended with an error.',
    status: null,
    requestId: about.requestId ?? requestId,
    retryAfter: null,
    isRetriable: false,
  }
  const Class = Object.hasOwn(byType, about.type ?? '') ? byType[about.type ?? ''] : undefined
  return new (Class ?? APIError)(problem)
}

interface About {
  readonly detail: string | null
  readonly type: string | null
  readonly code: string | null
  readonly param: string | null
  readonly requestId: string | null
}

const maxMessage = 4096

function aboutOf(body: unknown): About {
  const { error, request_id: requestId } = fieldsOf(body)
  const { message, type, code, param } =
    typeof error === 'string' ? { message: error } : fieldsOf(error)
  return {
    detail: textOf(message)?.slice(0, maxMessage) ?? null,
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
