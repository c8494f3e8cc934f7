// The errors that a call can reject with: one class for each family of statuses, with the server's own message.
// Promises that no error contains the API key. Decides only whether an error is worth another attempt; retry.ts does
// the waiting.

/** The base of every error of this library. An abort reason is the caller's own, and is passed on as it is. */
export class TollgateError extends Error {
  override readonly name: string = 'TollgateError'
  /** The text of choice 0 that a stream had sent before it failed, up to 8 MiB of it. */
  partialText: string | null = null
}

/** There was no answer: the connection was refused or lost, or the host was not found. */
export class ConnectionError extends TollgateError {
  override readonly name: string = 'ConnectionError'
  /** false: the request surely reached no server. */
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

/** Nothing came within a time-out. */
export class TimeoutError extends ConnectionError {
  override readonly name = 'TimeoutError'
}

/** A stream or a download broke off before its end. `partialText` has what came. */
export class IncompleteStreamError extends TollgateError {
  override readonly name = 'IncompleteStreamError'
}

export interface Problem {
  /** The server's own message, for people. It may change. */
  readonly detail: string
  /** The HTTP status; null when a stream had begun. */
  readonly status: number | null
  /** The code to switch on: `insufficient_balance`, `session_busy`, … */
  readonly code: string | null
  readonly type: string | null
  /** The field at fault. */
  readonly param: string | null
  /** Finds the line in the gateway's log. */
  readonly requestId: string | null
  /** Seconds to wait, if the server says so. */
  readonly retryAfter: number | null
  /** Whether the same call may succeed when it is sent again; also false when that would be charged twice. */
  readonly isRetriable: boolean
}

/** The server's refusal, or the error that ended a stream. Its `message` has the status, code and request id, too. */
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

/** 403: the key lacks the scope or the model, or the quota is used up. */
export class PermissionDeniedError extends APIError {
  override readonly name = 'PermissionDeniedError'
}

/** 404 and 410: it does not exist, or no longer. */
export class NotFoundError extends APIError {
  override readonly name = 'NotFoundError'
}

/** 409: mostly `session_busy`. */
export class ConflictError extends APIError {
  override readonly name = 'ConflictError'
}

/** 429, after all retries. */
export class RateLimitError extends APIError {
  override readonly name = 'RateLimitError'
}

/** 5xx, after all retries. */
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
  /** The body as it came: JSON of the API, or anything else. */
  readonly text: string
  readonly headers: Headers
  readonly retryAfter: number | null
  /** Whether the call makes the backend generate. */
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
  // The backend may have generated meanwhile: another attempt would be charged, too.
  if (status === 504) return !isGenerated
  return status === 408 || status === 429 || status >= 500
}

/** For a redirect that the runtime does not show. */
export function errorOfRedirect(): APIError {
  return new APIError({
    ...aboutOf(undefined),
    detail: 'The server redirects, and is not followed. Is the base URL that of a Tollgate?',
    status: null,
    retryAfter: null,
    isRetriable: false,
  })
}

/** For an event that has an `error`. */
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

/** The header without an API key in it, so that it may be shown. */
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
