// All refusals by their codes: the table behind docs/errors.md.

interface ErrorRow {
  readonly status: number
  readonly type: string
  /** Whether the same request may succeed later. `false` sends `X-Should-Retry: false` if SDKs would retry by the status. */
  readonly retry: boolean
  /** When to try again. Default: after a second for a 503, else nothing is said. */
  readonly retryAfterMs?: number
  readonly message: string
}

const rows =
  (type: string, retry = false) =>
  (status: number, message: string): ErrorRow => ({ status, type, retry, message })

const invalid = rows('invalid_request_error')
const stranger = rows('authentication_error')
const unpaid = rows('billing_error')
const denied = rows('permission_error')
const missing = rows('not_found_error')
const late = rows('timeout_error', true)
const conflict = rows('conflict_error')
const gone = rows('gone_error')
const tooLarge = rows('request_too_large')
const limited = rows('rate_limit_error', true)
const broken = rows('server_error', true)
const upstream = rows('upstream_error', true)
const busy = rows('overloaded_error', true)
const cancelled = rows('cancelled_error')

/** Every code that an answer can carry. Messages say what to do next; callers may be more specific. */
export const errorTable = {
  malformed_request: invalid(
    400,
    'The request is not valid HTTP. Check the request line and headers.',
  ),
  invalid_json: invalid(
    400,
    'The body is not acceptable JSON. Send one UTF-8 JSON object without duplicate keys.',
  ),
  missing_parameter: invalid(400, 'A required parameter is missing. The field param names it.'),
  invalid_parameter: invalid(
    400,
    'A parameter has a value that is not allowed. The field param names it.',
  ),
  unknown_parameter: invalid(
    400,
    'The request has a parameter that this route does not know. Remove it.',
  ),
  invalid_last_event_id: invalid(
    400,
    'The event id is not from this stream. Read the stream from its start, without an event id.',
  ),
  context_length_exceeded: invalid(
    400,
    "The input is longer than the model's context window. Shorten it.",
  ),
  unsupported_attachment: invalid(
    400,
    'The model does not accept this kind of attachment. Remove it, or choose another model.',
  ),
  missing_api_key: stranger(401, 'No API key was sent. Send "Authorization: Bearer <key>".'),
  invalid_api_key: stranger(401, 'The API key is not valid. Check it, or create a new one.'),
  api_key_revoked: stranger(401, 'The API key was revoked. Create a new one.'),
  api_key_expired: stranger(401, 'The API key has expired. Create a new one.'),
  not_logged_in: stranger(401, 'You are not logged in, or your log-in has ended. Log in again.'),
  invalid_link: stranger(
    401,
    'This link does not let you in: it was used, is older than 15 minutes, or is wrong. Ask for a new one.',
  ),
  invalid_admin_token: stranger(
    401,
    'The admin token is missing or wrong. Send "Authorization: Bearer <admin token>".',
  ),
  insufficient_balance: unpaid(402, 'The balance does not cover this request. Top up the account.'),
  budget_exceeded: unpaid(402, 'The budget is used up. Wait until it is renewed.'),
  insufficient_scope: denied(
    403,
    'The API key lacks the scope that this route needs. Use a key that has it.',
  ),
  model_not_allowed: denied(
    403,
    'The API key or the plan does not allow this model. GET /v1/models lists those you may use.',
  ),
  account_suspended: denied(403, 'The account is suspended. Contact the operator.'),
  storage_quota_exceeded: denied(403, 'The storage quota is used up. Delete files or sessions.'),
  login_refused: denied(
    403,
    'The log-in did not succeed, or you are not among those who may log in here. Try again.',
  ),
  key_limit_reached: denied(
    403,
    'The account has as many keys as it may have. Revoke keys; a revoked key still counts for a day.',
  ),
  origin_not_allowed: denied(403, 'Web pages may not call the admin listener.'),
  session_not_found: missing(404, 'There is no such session.'),
  message_not_found: missing(404, 'There is no such message.'),
  file_not_found: missing(404, 'There is no such file.'),
  model_not_found: missing(404, 'There is no such model. GET /v1/models lists those you may use.'),
  route_not_found: missing(
    404,
    'There is no such route. Base URLs end in /v1; chats go to POST /v1/chat/completions.',
  ),
  account_not_found: missing(404, 'There is no such account.'),
  key_not_found: missing(404, 'There is no such key.'),
  method_not_allowed: invalid(405, 'The route does not take this method. See the Allow header.'),
  request_timeout: late(408, 'The request did not arrive in time. Send it again.'),
  session_busy: conflict(
    409,
    'The session is already generating a message. Wait for its end, or cancel it.',
  ),
  idempotency_in_progress: {
    ...conflict(
      409,
      'A request with this Idempotency-Key is still running. Try again when it has ended.',
    ),
    retry: true,
    retryAfterMs: 1000,
  },
  account_not_empty: conflict(409, 'The account has tokens or a debt. Settle or forfeit that.'),
  account_in_use: {
    ...conflict(409, 'Requests still run. Delete the account again.'),
    retry: true,
  },
  account_deleted: gone(410, 'The account was deleted. Only its books can still be read.'),
  stream_expired: gone(410, 'The stream is no longer kept. Read the message instead.'),
  file_expired: gone(410, 'The file has expired. Upload it again.'),
  precondition_failed: invalid(
    412,
    'The file is not in the state that the If-Match or If-Unmodified-Since header demands.',
  ),
  body_too_large: tooLarge(413, 'The body is larger than this route accepts. Send less.'),
  file_too_large: tooLarge(413, 'The file is larger than the limit. Send a smaller one.'),
  unsupported_media_type: invalid(415, 'Send the body as application/json.'),
  range_not_satisfiable: invalid(416, 'The range lies outside the file.'),
  invalid_configuration: invalid(
    422,
    'The configuration has problems, and was not taken over. The last good one still runs.',
  ),
  idempotency_key_reused: invalid(
    422,
    'The Idempotency-Key was already used for another request. Use a new one.',
  ),
  reference_reused: invalid(422, 'This payment was made before, with another amount.'),
  checksum_mismatch: invalid(
    422,
    'The checksum does not match the file that arrived. Send the file again.',
  ),
  rate_limit_exceeded: limited(429, 'The rate limit is reached. Wait as Retry-After says.'),
  concurrency_limit_exceeded: limited(429, 'Too many requests are running. Wait for one to end.'),
  upstream_rate_limited: limited(429, 'The model is rate limited. Wait as Retry-After says.'),
  headers_too_large: invalid(431, 'The request headers are too large. Send fewer or shorter ones.'),
  internal_error: broken(
    500,
    'The gateway failed. Try again; if it fails again, report the request id.',
  ),
  upstream_error: upstream(502, 'The model failed to answer. Try again.'),
  upstream_auth_error: upstream(
    502,
    "The model refused the gateway's credentials. Tell the operator.",
  ),
  upstream_incomplete: upstream(502, 'The answer was cut off before it was complete. Try again.'),
  upstream_unavailable: busy(503, 'The model is not available now. Try again as Retry-After says.'),
  storage_unavailable: busy(503, 'File storage is not available now. Try again.'),
  ledger_unavailable: busy(
    503,
    'The gateway cannot reach its database now. Try again as Retry-After says.',
  ),
  overloaded: busy(
    503,
    'The gateway has no room for this request now. Try again as Retry-After says.',
  ),
  login_unavailable: busy(503, 'The identity provider cannot be reached now. Try again.'),
  server_draining: busy(503, 'This server is shutting down. Try again on a new connection.'),
  upstream_timeout: {
    ...late(504, 'The model did not answer in time. A second try may be charged again.'),
    retry: false,
  },
  message_cancelled: cancelled(409, 'The message was cancelled.'),
} satisfies Record<string, ErrorRow>
