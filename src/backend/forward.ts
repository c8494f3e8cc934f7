// One attempt at one backend, through http-proxy-3's native path, as a promise of the answer's headers. Guarantees:
// only the gateway's own headers go out, an abort closes the backend's socket at once, an answer that was cut says so,
// redirects are not followed. Tries again once when an idle connection was dead and nothing was answered; any other
// retry is for the caller.

import type { Agent, ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { Stream } from 'node:stream'
import { createProxyServer } from 'http-proxy-3'
import type { Model, Target } from '../config/config.ts'
import { GatewayError, codeOf, hasCode, isOutOfFiles, unreached } from '../errors.ts'
import type { BackendRequest } from '../exchange.ts'
import { http } from '../node-http.ts'
import { portOf } from './connections.ts'
import type { Connections } from './connections.ts'
import { startDemo } from '../demo/server.ts'
import { connectionsTo } from './pools.ts'
import { ownHeaders, requestHeaders } from './request-headers.ts'

export interface BackendAnswer {
  readonly status: number
  /** Lower-case; to be read, not to be relayed. */
  readonly headers: IncomingHttpHeaders
  /** Has to be read to its end or aborted. */
  readonly stream: IncomingMessage
  /** How the stream closed. Without an error listener this is the only sign of a cut. */
  readonly ended: Promise<'whole' | 'cut'>
  /** Whether the operating system has the whole request, so that nobody reads its body any more. */
  isSent(): boolean
  /** Closes the backend's socket unless the answer has ended. */
  abort(): void
}

export interface Attempt {
  readonly target: Target
  readonly model: Model
  readonly request: BackendRequest
  /** When the signal's reason is a GatewayError, that error is thrown. */
  readonly signal: AbortSignal
  /** Called when the request has gone out whole: from then on it may have cost something. */
  onSent?(): void
}

// This variable makes http-proxy-3 use its fetch path for everything, which cannot stop a backend and changes answers.
if (process.env['FORCE_FETCH_PATH'] !== undefined) {
  throw new Error('FORCE_FETCH_PATH is set: unset it, the gateway needs the native path')
}

const { web } = createProxyServer({})

// The proxy listens on a client's request and response for what OutgoingRequest and the signal already report. These two
// classes never emit anything and keep no listener, so one object can serve many requests.

class ProxyRequest extends http.IncomingMessage {
  override method = 'POST'
  override httpVersionMajor = 1

  constructor(path: string) {
    super(new Socket())
    this.url = path
  }

  override on(): this {
    return this
  }
}

class ProxyResponse extends http.ServerResponse {
  /** If this were false, the proxy would listen for the end of each backend's answer. */
  override finished = true

  override on(): this {
    return this
  }
}

const unanswered = new ProxyResponse(new ProxyRequest('/'))

/** What lives as long as one configured target. */
interface Line {
  readonly base: URL
  /** The parts of the base that the proxy reads. A URL would make new strings of them for each request, and the request would keep those. */
  readonly target: ReturnType<typeof partsOf>
  readonly connections: Connections
  readonly headers: Readonly<Record<string, string>>
  /** By endpoint path. */
  readonly requests: Map<string, ProxyRequest>
}

const lines = new WeakMap<Target, Line>()

/** Throws only GatewayErrors. */
export async function forward(attempt: Attempt): Promise<BackendAnswer> {
  const line = lines.get(attempt.target) ?? (await openLine(attempt))
  if (attempt.signal.aborted) throw abortError(attempt.signal)
  const { connections } = line
  try {
    return await send(attempt, { line, agent: connections.reusing })
  } catch (failure) {
    if (!(failure instanceof DeadConnection)) throw failure
  }
  return await send(attempt, { line, agent: connections.fresh() })
}

let demo: ReturnType<typeof startDemo> | undefined

async function openLine({ target, model }: Attempt): Promise<Line> {
  const base = new URL(target.url === 'demo' ? (await (demo ??= startDemo())).url : target.url)
  const known = lines.get(target)
  if (known) return known
  const line = {
    base,
    target: partsOf(base),
    connections: connectionsTo(base, target, model.timeouts),
    headers: ownHeaders(target, base),
    requests: new Map<string, ProxyRequest>(),
  }
  lines.set(target, line)
  return line
}

function send(attempt: Attempt, { line, agent }: { line: Line; agent: Agent }) {
  const { request, signal, onSent } = attempt
  return new Promise<BackendAnswer>((resolve, reject) => {
    const outgoing = new OutgoingRequest({ body: request.body, signal, onSent, resolve, reject })
    const options = {
      target: line.target,
      agent,
      toProxy: true, // the path goes out as it stands
      prependPath: false,
      selfHandleResponse: true,
      headers: requestHeaders(request, line.headers),
      buffer: outgoing,
    }
    try {
      web(requestTo(line, request.path), unanswered, options, outgoing.failed)
    } catch (error) {
      // `web` throws for a header value that HTTP cannot carry. The signal must not keep a listener then.
      outgoing.failed(error instanceof Error ? error : new Error(String(error)))
    }
  })
}

function partsOf(base: URL) {
  const { protocol, host, hostname, href } = base
  return { protocol, host, hostname, port: portOf(base), href }
}

/** The target's path before the endpoint's; the target's query, such as an API version, follows both. */
function requestTo({ base, requests }: Line, path: string): ProxyRequest {
  const known = requests.get(path)
  if (known) return known
  const request = new ProxyRequest(base.pathname.replace(/\/$/, '') + path + base.search)
  requests.set(path, request)
  return request
}

/** An idle connection that the backend had closed, as seen when it was used. */
class DeadConnection extends Error {
  override readonly name = 'DeadConnection'
}

interface OutgoingRequestOptions {
  /** In pieces. */
  readonly body: readonly Buffer[]
  readonly signal: AbortSignal
  readonly onSent: (() => void) | undefined
  resolve(answer: BackendAnswer): void
  reject(error: GatewayError | DeadConnection): void
}

/** Bodies up to here go out as one string with the headers: one write in place of a writev saves 3 µs. */
const oneWriteBytes = 64 * 1024

/** One request on its way: takes the ClientRequest that the proxy made, sends the body, and tells how it went. The proxy has it as the `buffer` option. */
class OutgoingRequest extends Stream {
  readonly #options: Omit<OutgoingRequestOptions, 'body'>
  /** Released when it is sent, because the answer may take half an hour. */
  #body: readonly Buffer[]
  #req: ClientRequest | undefined
  #isAnswered = false
  /** What the socket had read for requests before this one. */
  #readBefore = 0

  constructor({ body, ...options }: OutgoingRequestOptions) {
    super()
    this.#body = body
    this.#options = options
    options.signal.addEventListener('abort', this.abort)
  }

  /** Called by the proxy as if this were the client's body. */
  override pipe<T extends NodeJS.WritableStream>(req: T): T {
    if (req instanceof http.ClientRequest) this.#send(req)
    return req
  }

  #send(req: ClientRequest): void {
    this.#req = req
    const { onSent } = this.#options
    const [first, ...others] = this.#body
    this.#body = []
    // Each event comes once: `on` avoids the wrapper that `once` makes.
    req.on('socket', (socket) => (this.#readBefore = socket.bytesRead))
    req.on('response', this.#answered)
    req.on('close', this.#closed)
    if (onSent) req.on('finish', onSent)
    if (first && others.length === 0 && first.length <= oneWriteBytes) {
      req.end(first.toString('latin1'), 'latin1')
      return
    }
    if (first) req.write(first)
    for (const piece of others) req.write(piece)
    req.end()
  }

  readonly abort = (): void => {
    this.#req?.destroy()
  }

  /** Called by the proxy. Errors after the answer's headers are ignored here, because the end of the stream reports them. */
  readonly failed = (error: Error): void => {
    if (this.#isAnswered) return
    this.#letGo()
    const { signal, reject } = this.#options
    if (signal.aborted) reject(abortError(signal))
    else if (this.#wasDead(error)) reject(new DeadConnection(error.message, { cause: error }))
    else reject(fromNodeError(error))
  }

  readonly #answered = (stream: IncomingMessage): void => {
    this.#isAnswered = true
    const ended = new Promise<'whole' | 'cut'>((resolve) => {
      stream.on('close', () => {
        this.#letGo()
        resolve(stream.complete ? 'whole' : 'cut')
      })
    })
    this.#options.resolve({
      status: stream.statusCode ?? 0,
      headers: stream.headers,
      stream,
      ended,
      isSent: () => this.#req?.writableFinished === true,
      abort: this.abort,
    })
  }

  #wasDead(error: Error): boolean {
    if (!hasCode(error, 'ECONNRESET') && !hasCode(error, 'EPIPE')) return false
    return this.#req?.reusedSocket === true && this.#req.socket?.bytesRead === this.#readBefore
  }

  /** An upgrade that nobody asked for closes the request without an error and without an answer. */
  readonly #closed = (): void => {
    if (!this.#isAnswered) this.failed(new Error('closed without an answer'))
  }

  #letGo(): void {
    this.#options.signal.removeEventListener('abort', this.abort)
  }
}

/** The error that the abort's reason gives. Without a GatewayError as reason the client has left, and gets no answer any more. */
export function abortError({ reason }: AbortSignal): GatewayError {
  if (reason instanceof GatewayError) return reason
  return new GatewayError('message_cancelled', { cause: reason, source: 'client' })
}

/** The refusal for a socket error on the way to a backend. */
export function fromNodeError(cause: Error): GatewayError {
  if (isOutOfFiles(cause)) return new GatewayError('overloaded', { cause })
  const code = unreached.has(codeOf(cause)) ? 'upstream_unavailable' : 'upstream_error'
  return new GatewayError(code, { cause, source: 'backend' })
}
