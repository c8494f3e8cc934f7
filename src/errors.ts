// The one vocabulary of refusals: contract §7 as a table, and the error that carries a row of it.
// Code throws GatewayError; http/reply.ts alone turns one into an answer. No status code is written anywhere else.

export type ErrorSource = 'client' | 'gateway' | 'backend'

interface Row {
  readonly status: number
  readonly type: string
  /** May the same request succeed later? `false` sends `X-Should-Retry: false` where an SDK would retry by status. */
  readonly retry: boolean
  readonly message: string
}

const invalid = 'invalid_request_error'
const row = (status: number, type: string, retry: boolean, message: string): Row => ({
  status,
  type,
  retry,
  message,
})

/** Every code that an answer can carry. Messages say what to do next; callers may be more specific. */
export const errorTable = {
  malformed_request: row(
    400,
    invalid,
    false,
    'The request is not valid HTTP. Check the request line and headers.',
  ),
  invalid_json: row(
    400,
    invalid,
    false,
    'The body is not acceptable JSON. Send one UTF-8 JSON object without duplicate keys.',
  ),
  missing_parameter: row(400, invalid, false, 'A required parameter is missing.'),
  invalid_parameter: row(400, invalid, false, 'A parameter has a value that is not allowed.'),
  unknown_parameter: row(
    400,
    invalid,
    false,
    'The body has a parameter that this route does not know. Remove it.',
  ),
  invalid_last_event_id: row(
    400,
    invalid,
    false,
    'The event id is not one of this stream. Start again without it.',
  ),
  context_length_exceeded: row(
    400,
    invalid,
    false,
    "The input is longer than the model's context window. Shorten it.",
  ),
  unsupported_attachment: row(
    400,
    invalid,
    false,
    'The model does not accept this kind of attachment.',
  ),
  missing_api_key: row(
    401,
    'authentication_error',
    false,
    'No API key was sent. Send "Authorization: Bearer <key>".',
  ),
  invalid_api_key: row(
    401,
    'authentication_error',
    false,
    'The API key is not valid. Check it, or create a new one.',
  ),
  api_key_revoked: row(
    401,
    'authentication_error',
    false,
    'The API key was revoked. Create a new one.',
  ),
  api_key_expired: row(
    401,
    'authentication_error',
    false,
    'The API key has expired. Create a new one.',
  ),
  invalid_admin_token: row(
    401,
    'authentication_error',
    false,
    'The admin token is missing or wrong.',
  ),
  insufficient_balance: row(
    402,
    'billing_error',
    false,
    'The balance does not cover this request. Top up the account.',
  ),
  insufficient_scope: row(
    403,
    'permission_error',
    false,
    'The API key lacks the scope that this route needs.',
  ),
  model_not_allowed: row(
    403,
    'permission_error',
    false,
    'This key or plan may not use this model.',
  ),
  account_suspended: row(
    403,
    'permission_error',
    false,
    'The account is suspended. Contact the operator.',
  ),
  storage_quota_exceeded: row(
    403,
    'permission_error',
    false,
    'The storage quota is used up. Delete files first.',
  ),
  origin_not_allowed: row(
    403,
    'permission_error',
    false,
    'Web pages may not call the admin listener.',
  ),
  session_not_found: row(404, 'not_found_error', false, 'There is no such session.'),
  message_not_found: row(404, 'not_found_error', false, 'There is no such message.'),
  file_not_found: row(404, 'not_found_error', false, 'There is no such file.'),
  model_not_found: row(
    404,
    'not_found_error',
    false,
    'There is no such model. GET /v1/models lists those you may use.',
  ),
  route_not_found: row(
    404,
    'not_found_error',
    false,
    'There is no such route. Base URLs end in /v1.',
  ),
  account_not_found: row(404, 'not_found_error', false, 'There is no such account.'),
  key_not_found: row(404, 'not_found_error', false, 'There is no such key.'),
  method_not_allowed: row(
    405,
    invalid,
    false,
    'The route does not take this method. See the Allow header.',
  ),
  request_timeout: row(
    408,
    'timeout_error',
    true,
    'The request did not arrive in time. Send it again.',
  ),
  session_busy: row(
    409,
    'conflict_error',
    false,
    'The session is generating already. Wait for it or cancel it.',
  ),
  idempotency_in_progress: row(
    409,
    'conflict_error',
    true,
    'A request with this Idempotency-Key is still running.',
  ),
  stream_expired: row(
    410,
    'gone_error',
    false,
    'The stream is no longer kept. Read the message instead.',
  ),
  file_expired: row(410, 'gone_error', false, 'The file has expired.'),
  precondition_failed: row(412, invalid, false, 'The precondition does not hold.'),
  body_too_large: row(
    413,
    'request_too_large',
    false,
    'The body is larger than this route accepts.',
  ),
  file_too_large: row(413, 'request_too_large', false, 'The file is larger than the limit.'),
  unsupported_media_type: row(415, invalid, false, 'Send the body as application/json.'),
  range_not_satisfiable: row(416, invalid, false, 'The range lies outside the file.'),
  idempotency_key_reused: row(
    422,
    invalid,
    false,
    'The Idempotency-Key was used with another body. Use a new one.',
  ),
  checksum_mismatch: row(422, invalid, false, 'The checksum does not match what arrived.'),
  rate_limit_exceeded: row(
    429,
    'rate_limit_error',
    true,
    'The rate limit is reached. Wait as Retry-After says.',
  ),
  concurrency_limit_exceeded: row(
    429,
    'rate_limit_error',
    true,
    'Too many requests are running. Wait for one to end.',
  ),
  upstream_rate_limited: row(
    429,
    'rate_limit_error',
    true,
    'The model is rate limited. Wait as Retry-After says.',
  ),
  headers_too_large: row(431, invalid, false, 'The request headers are too large.'),
  internal_error: row(
    500,
    'server_error',
    true,
    'The gateway failed. Try again; if it stays, report the request id.',
  ),
  upstream_error: row(502, 'upstream_error', true, 'The model failed to answer. Try again.'),
  upstream_auth_error: row(
    502,
    'upstream_error',
    true,
    'The model refused the gateway. The operator has to look at it.',
  ),
  upstream_incomplete: row(
    502,
    'upstream_error',
    true,
    'The answer was cut off before it was complete.',
  ),
  upstream_unavailable: row(
    503,
    'overloaded_error',
    true,
    'The model is not available now. Try again as Retry-After says.',
  ),
  storage_unavailable: row(
    503,
    'overloaded_error',
    true,
    'File storage is not available now. Try again.',
  ),
  ledger_unavailable: row(
    503,
    'overloaded_error',
    true,
    'Balances cannot be checked now. Try again as Retry-After says.',
  ),
  overloaded: row(
    503,
    'overloaded_error',
    true,
    'The gateway holds as many bodies as it may. Try again.',
  ),
  server_draining: row(
    503,
    'overloaded_error',
    true,
    'This server is shutting down. Try again on a new connection.',
  ),
  upstream_timeout: row(504, 'timeout_error', true, 'The model did not answer in time. Try again.'),
  message_cancelled: row(409, 'cancelled_error', false, 'The message was cancelled.'),
} as const satisfies Record<string, Row>

export type ErrorCode = keyof typeof errorTable

export interface ErrorDetails {
  /** Replaces the table's message. Goes to the client: no hosts, secrets or stacks. */
  readonly message?: string
  /** The body or query field at fault. */
  readonly param?: string
  readonly retryAfterMs?: number
  /** Extra answer headers, such as Allow. */
  readonly headers?: Readonly<Record<string, string>>
  /** Overrides the table's status where the contract gives one code two (admin adjust: 409). */
  readonly status?: number
  readonly source?: ErrorSource
  /** For the log, never for the client. */
  readonly cause?: unknown
}

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

  constructor(code: ErrorCode, details: ErrorDetails = {}) {
    const { status, type, retry, message } = errorTable[code]
    super(details.message ?? message, { cause: details.cause })
    this.code = code
    this.status = details.status ?? status
    this.type = type
    this.retry = retry
    this.param = details.param
    this.retryAfterMs = details.retryAfterMs ?? (this.status === 503 ? 1000 : undefined)
    this.headers = details.headers ?? {}
    this.source = details.source ?? (this.status >= 500 ? 'gateway' : 'client')
  }
}

/** Anything that was thrown, as a GatewayError: unknown things are `internal_error` with the cause kept for the log. */
export function asGatewayError(thrown: unknown): GatewayError {
  return thrown instanceof GatewayError
    ? thrown
    : new GatewayError('internal_error', { cause: thrown })
}

const nodeErrors: Readonly<Record<string, ErrorCode>> = {
  ECONNREFUSED: 'upstream_unavailable',
  ENOTFOUND: 'upstream_unavailable',
  EAI_AGAIN: 'upstream_unavailable',
  EHOSTUNREACH: 'upstream_unavailable',
  ENETUNREACH: 'upstream_unavailable',
  ETIMEDOUT: 'upstream_unavailable',
  EMFILE: 'upstream_unavailable',
}

/** A socket's error on the way to a backend, by Node's `code`; what is not listed is `upstream_error`. */
export function fromNodeError(error: Error): GatewayError {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  return new GatewayError(nodeErrors[code] ?? 'upstream_error', { cause: error, source: 'backend' })
}

/** The JSON body of an error answer, and of the error frame in a stream. */
export function errorBody(error: GatewayError, requestId: string): string {
  const { message, type, param = null, code } = error
  return JSON.stringify({ error: { message, type, param, code }, request_id: requestId })
}
