// One attempt at one backend, through http-proxy-3's native path, as a promise of the answer's headers. Guarantees:
// only the gateway's own headers go out, an abort closes the backend's socket at once, an answer that was cut says so,
// redirects are not followed. Tries again once when an idle connection was dead and nothing was answered; any other
// retry is for the caller.

import type { Agent } from 'node:http'
import { Socket } from 'node:net'
import { createProxyServer } from 'http-proxy-3'
import type { Model, Target } from '../config/config.ts'
import type { BackendRequest } from '../exchange.ts'
import { http } from '../node-http.ts'
import { portOf } from './connections.ts'
import type { Connections } from './connections.ts'
import { startDemo } from '../demo/server.ts'
import { connectionsTo } from './pools.ts'
import { ownHeaders, requestHeaders } from './request-headers.ts'
import { DeadConnection, OutgoingRequest, abortError } from './outgoing-request.ts'
import type { BackendAnswer } from './outgoing-request.ts'

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

// The proxy listens on a client's request and response for what outgoing-request.ts and the signal already report. These two
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
