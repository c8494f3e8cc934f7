// The one place that writes answers: plain ones, errors, and the heads of streams (client-stream.ts writes the rest).
// Promises X-Request-Id on every answer, header values without control characters, one write for head and body, and
// that it never throws because a client has left.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { errorBody } from '../errors.ts'
import type { GatewayError } from '../errors.ts'
import type { Answer } from '../exchange.ts'
import { http } from '../node-http.ts'
import { openClientStream } from './client-stream.ts'
import type { ClientStream, StreamLimits } from './client-stream.ts'
import { sendContent } from './content.ts'
import type { Content } from './content.ts'
import { headerList, headerOf, limitHeaders } from './headers.ts'
import type { Headers } from './headers.ts'
import { linger } from './linger.ts'
import { watchReader } from './slow-reader.ts'
import type { ReaderLimits } from './slow-reader.ts'

/** What an answer needs of its exchange. */
export interface Replying {
  readonly id: string
  /** Headers that go out with every answer, refusals included. */
  readonly replyHeaders: Headers
}

interface Head {
  readonly status: number
  readonly headers: Headers
}

export interface ReplyOptions {
  readonly answer: Answer
  readonly limits: StreamLimits
  /** Cuts `content` answers; a `stream` answer ends by itself. */
  readonly signal?: AbortSignal
}

/** Resolves when the answer's work has ended. If a stream throws, the connection is cut, so that the answer never looks whole. */
export async function sendAnswer(
  res: ServerResponse,
  x: Replying,
  options: ReplyOptions,
): Promise<void> {
  const { answer, limits } = options
  if ('content' in answer) return sendContent(res, contentOf(res, x, { ...options, answer }))
  if ('body' in answer) {
    const { status, headers = {}, body, encoding } = answer
    const isMid = isMidBody(res.req)
    return sendWhole(res, x, { status, headers, body, encoding, isMidBody: isMid, limits })
  }
  const out = openStream(res, x, { status: answer.status, headers: answer.headers, limits })
  try {
    await answer.stream(out)
  } catch (error) {
    res.destroy()
    throw error
  }
  out.end()
}

interface ContentOptions extends ReplyOptions {
  readonly answer: Extract<Answer, { content: Readable }>
}

function contentOf(res: ServerResponse, x: Replying, options: ContentOptions): Content {
  const { answer, limits, signal } = options
  const { status, headers, content } = answer
  const isLong = isMidBody(res.req)
  if (isLong) res.shouldKeepAlive = false
  return {
    status,
    headers: headerList(x.id, x.replyHeaders, headers),
    length: headerOf(headers, 'content-length'),
    content,
    limits,
    signal,
    end: () => (isLong ? linger(res.req, () => res.end()) : res.end()),
  }
}

/** Watches the reader of a whole answer that the system has not taken at once. */
function watchUntaken(res: ServerResponse, limits: ReaderLimits): void {
  if (res.writableLength > 0 && !res.destroyed) watchReader(res, limits)()
}

/** For refusals that no exchange sends. */
const ownLimits: ReaderLimits = { readerStallMs: 30_000 }

/** Sends the error; if an answer has begun already, cuts that answer. */
export function sendError(
  res: ServerResponse,
  x: Replying,
  error: GatewayError,
  limits: ReaderLimits = ownLimits,
): void {
  if (res.destroyed) return
  if (res.headersSent) {
    if (!res.writableEnded) res.destroy()
    return
  }
  sendWhole(res, x, {
    status: error.status,
    headers: errorHeaders(error, res.req),
    body: errorBody(error, x.id),
    isMidBody: isMidBody(res.req) || error.code === 'request_timeout',
    limits,
  })
}

/** Sends the headers at once. */
export function openStream(
  res: ServerResponse,
  x: Replying,
  { status, headers, limits }: Head & { readonly limits: StreamLimits },
): ClientStream {
  if (isMidBody(res.req)) res.shouldKeepAlive = false
  return openClientStream(res, {
    status,
    headers: headerList(x.id, x.replyHeaders, headers),
    limits,
  })
}

/** The text of a refusal for a request that Node could not parse: there is no ServerResponse to write it with. */
export function rawRefusal(error: GatewayError, id: string): string {
  const body = errorBody(error, id)
  const head = [
    `HTTP/1.1 ${error.status} ${http.STATUS_CODES[error.status]}`,
    `X-Request-Id: ${id}`,
    `Date: ${new Date().toUTCString()}`,
    ...Object.entries(errorHeaders(error)).map(([name, value]) => `${name}: ${value}`),
    'Content-Type: application/json',
    'Cache-Control: no-store',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

/** The client closed before its answer was complete. */
export function hasLeft(res: ServerResponse): boolean {
  return res.destroyed && !res.writableFinished
}

/** Up to this size, head and body go out as one string, in one write(2); a Buffer after the head would be a writev, 3 µs more. A longer body goes out as a Buffer: the system would copy a string, and keep both until the client has taken it. */
const oneWriteBytes = 64 * 1024

interface Whole extends Head {
  readonly body: string | Buffer
  readonly encoding?: 'latin1' | undefined
  readonly isMidBody: boolean
  readonly limits: ReaderLimits
}

function sendWhole(res: ServerResponse, x: Replying, whole: Whole): void {
  const { isMidBody, limits } = whole
  const body = inOneWrite(whole)
  if (isMidBody) res.shouldKeepAlive = false
  writeHead(res, x, { ...whole, bytes: body.length })
  // The answer is ended only after `linger`, because Node closes the connection when such an answer ends.
  if (isMidBody) {
    res.write(body, 'latin1')
    return linger(res.req, () => watchUntaken(res.end(), limits))
  }
  res.end(body, 'latin1')
  watchUntaken(res, limits)
}

/** A string is latin1, as the head is: Node writes both in one encoding. */
function inOneWrite({ body, encoding }: Whole): string | Buffer {
  const isLong = body.length > oneWriteBytes
  if (encoding === 'latin1' && typeof body === 'string' && !isLong) return body
  const bytes = typeof body === 'string' ? Buffer.from(body, encoding) : body
  return isLong ? bytes : bytes.toString('latin1')
}

function writeHead(
  res: ServerResponse,
  x: Replying,
  { status, headers, bytes: length }: Head & { readonly bytes: number },
): void {
  const list = headerList(x.id, x.replyHeaders, headers)
  const type = headerOf(headers, 'content-type')
  if (length > 0 && type === undefined) list.push('Content-Type', 'application/json')
  const isJson = type?.startsWith('application/json') ?? length > 0
  if (isJson && headerOf(headers, 'cache-control') === undefined)
    list.push('Cache-Control', 'no-store')
  // For HEAD the length is that of the GET, so the route may give it.
  const isBodiless = status === 204 || status === 304
  if (!isBodiless && headerOf(headers, 'content-length') === undefined) {
    list.push('Content-Length', String(length))
  }
  res.writeHead(status, list)
}

/** OpenAI's SDKs retry these, and every status from 500 on. */
const retriedBySdks: ReadonlySet<number> = new Set([402, 408, 409, 429])

function errorHeaders(error: GatewayError, req?: IncomingMessage): Headers {
  const headers: Record<string, string> = {
    ...error.headers,
    ...(error.limits && limitHeaders(error.limits)),
  }
  if (error.retryAfterMs !== undefined) {
    headers['Retry-After'] = String(Math.ceil(error.retryAfterMs / 1000))
    headers['retry-after-ms'] = String(Math.ceil(error.retryAfterMs))
  }
  if (!error.retry && (error.status >= 500 || retriedBySdks.has(error.status))) {
    headers['X-Should-Retry'] = 'false'
  }
  if (error.status === 401) {
    headers['WWW-Authenticate'] = challenge(error, req?.headers.authorization !== undefined)
  }
  return headers
}

/** Errors of the account page, which a cookie opens and no key. */
const ofThePage: ReadonlySet<string> = new Set(['not_logged_in', 'invalid_link'])

function challenge({ code }: GatewayError, wasSent: boolean): string {
  if (ofThePage.has(code)) return 'Cookie realm="tollgate"'
  return `Bearer realm="tollgate"${wasSent ? ', error="invalid_token"' : ''}`
}

/** Up to this size, Node may read and drop an unread body, so that the connection can be used again. */
const forgivenBytes = 64 * 1024

/** Whether more than `forgivenBytes` of the request's body may still arrive. */
function isMidBody({ headers, complete }: IncomingMessage): boolean {
  if (complete) return false
  if (headers['transfer-encoding'] !== undefined) return true
  const length = headers['content-length']
  return length !== undefined && Number(length) > forgivenBytes
}
