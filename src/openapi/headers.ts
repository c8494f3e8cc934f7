// The headers of requests and answers: docs/api.md has them as tables, the OpenAPI document as components.

import type { JsonSchema } from './fields.ts'

export interface HeaderRow {
  readonly names: readonly string[]
  /** Markdown. */
  readonly says: string
  readonly schema?: JsonSchema
}

const text: JsonSchema = { type: 'string' }
const wholeText: JsonSchema = { type: 'string', pattern: String.raw`^\d+$` }
const visible = { type: 'string', pattern: '^[\\x21-\\x7e]{1,255}$' }

const row = (names: string, says: string, schema: JsonSchema = text): HeaderRow => ({
  names: names.split(' '),
  says,
  schema,
})

export const requestHeaders: readonly HeaderRow[] = [
  row('Cookie Origin Sec-Fetch-Site', 'On the [account page](#account-page).'),
  row('Authorization', '`Bearer` and the key, or the admin token.'),
  row('Content-Type', '`application/json`; for uploads `multipart/form-data` with its boundary.'),
  row('Accept', 'On messages of a session without `stream`: decides between JSON and a stream.'),
  row('Idempotency-Key', 'On routes that take it: [Conventions](#conventions).', visible),
  row(
    'Last-Event-ID',
    'The last event that the client has, `msg_…:17`: on streams of sessions, and on sending a message.',
    { type: 'string', pattern: String.raw`^msg_[0-9a-f]{32}:\d{1,15}$` },
  ),
  row(
    'X-Client-Request-Id',
    'Up to 255 visible ASCII characters. The answer repeats it, and the log line has it.',
  ),
  row(
    'traceparent tracestate',
    'The gateway passes them on to the backend; with [traces](operating.md#traces) it sends those of its own span.',
  ),
  row(
    'Range If-Range If-Match If-None-Match If-Modified-Since If-Unmodified-Since',
    'On downloads, as RFC 9110 defines them; `If-None-Match` also on files of the account page, `/openapi.json` and `/docs`.',
  ),
]

export const responseHeaders: readonly HeaderRow[] = [
  row('X-Request-Id', 'On every answer: `req_…`, as in the log.', {
    type: 'string',
    pattern: '^req_[0-9a-f]{32}$',
  }),
  row('X-Client-Request-Id', "The client's own id, repeated.", visible),
  row(
    'Content-Type',
    "`application/json`, `text/event-stream; charset=utf-8`, or the file's type.",
  ),
  row(
    'Cache-Control',
    '`no-store` on JSON, `no-cache` on files of the account page, `/openapi.json` and `/docs`, `no-cache, no-transform` on streams, `private, no-cache` on files.',
  ),
  row('X-Accel-Buffering', '`no` on streams.'),
  row(
    'Location',
    'The path of what was created; on a session stream, the path to read it again; with 410 `stream_expired`, the message.',
  ),
  row('Content-Location', "On a session stream and on a sent message: the message's path."),
  row('X-Message-Id', "On a session stream and on a sent message: the answer's id.", {
    type: 'string',
    pattern: '^msg_[0-9a-f]{32}$',
  }),
  row('X-User-Message-Id', "On sending a message: the id of the user's message.", {
    type: 'string',
    pattern: '^msg_[0-9a-f]{32}$',
  }),
  row('Idempotent-Replayed', '`true`: an earlier call made this.', { const: 'true' }),
  row(
    'x-ratelimit-limit-requests x-ratelimit-remaining-requests x-ratelimit-reset-requests',
    'Requests a minute of the account or the key; the reset is written as `12ms`, `1s`, `6m0s`. On public routes with a valid key, unless they were refused before that was counted. Requests that ask a model are counted apart from all others.',
  ),
  row(
    'x-ratelimit-limit-tokens x-ratelimit-remaining-tokens x-ratelimit-reset-tokens',
    'Model tokens a minute, on routes that ask a model.',
  ),
  row(
    'Retry-After retry-after-ms',
    'In whole seconds and in milliseconds: on 429, 503 and 409 `idempotency_in_progress`.',
    wholeText,
  ),
  row(
    'X-Should-Retry',
    '`false` if SDKs would retry because of the status, but a retry is useless or would be paid for again.',
    { const: 'false' },
  ),
  row(
    'x-tollgate-balance-low',
    "What the account has available, in balance tokens, if that is less than `plugins.account.low_balance`: on routes that ask a model (before this request's hold), also with 402 `insufficient_balance`, and on the balance.",
    wholeText,
  ),
  row(
    'WWW-Authenticate',
    'On 401: `Bearer realm="tollgate"`, with `error="invalid_token"` if a key or token was sent; `Cookie realm="tollgate"` from the account page.',
  ),
  row('Allow', 'On 405: the methods of this path.'),
  row(
    'ETag Last-Modified Repr-Digest Accept-Ranges Content-Range',
    'On files: the SHA-256 as tag and as digest, and the time of the upload. `ETag` also on files of the account page, `/openapi.json` and `/docs`.',
  ),
  row(
    'Content-Disposition X-Content-Type-Options Content-Security-Policy Cross-Origin-Resource-Policy',
    "On files: they keep a browser from running a file's content. All except `Content-Disposition` also under `/account` and on `/docs`.",
  ),
  row(
    'Referrer-Policy Cross-Origin-Opener-Policy Content-Encoding',
    'Under `/account`. `Referrer-Policy` also on `/docs`, `Content-Encoding` also there and on `/openapi.json`.',
  ),
  row(
    'Set-Cookie',
    'On log-in and log-out of the account page: `__Host-tollgate` with TLS, `tollgate` on loopback without.',
  ),
  row('Content-Language openai-processing-ms openai-version', "The backend's, on `/v1`."),
  row(
    'Vary Access-Control-Allow-Origin Access-Control-Expose-Headers',
    'With `plugins.cors.origins`; `Vary` also on files of the account page, `/openapi.json` and `/docs`.',
  ),
  row(
    'Access-Control-Allow-Methods Access-Control-Allow-Headers Access-Control-Max-Age',
    'With `plugins.cors.origins`, on preflights.',
  ),
]

/** The header of this name as the OpenAPI document has it. */
export function headerNamed(rows: readonly HeaderRow[], name: string): HeaderRow {
  const found = rows.find(({ names }) => names.includes(name))
  if (!found) throw new Error(`there is no header ${name}`)
  return found
}
