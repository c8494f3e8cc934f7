// One attempt at one backend, through http-proxy-3's native path, as a promise of its headers. Promises: only our own
// headers go out, an abort closes the backend's socket at once, an answer that was cut says so, redirects are not followed.
// Tries again once where an idle connection was dead and nothing was answered; all other trying again is the caller's.

import { IncomingMessage, ServerResponse } from 'node:http'
import type { Agent } from 'node:http'
import { Socket } from 'node:net'
import { createProxyServer } from 'http-proxy-3'
import type { Model, Target } from '../config/config.ts'
import type { BackendRequest } from '../exchange.ts'
import { openConnections, portOf } from './connections.ts'
import type { Connections } from './connections.ts'
import { startDemo } from '../demo/server.ts'
import { ownHeaders, requestHeaders } from './request-headers.ts'
import { DeadConnection, Sending, abortError } from './sending.ts'
import type { BackendAnswer } from './sending.ts'

export interface Attempt {
  readonly target: Target
  readonly model: Model
  readonly request: BackendRequest
  /** Its reason, where it is a GatewayError, is what is thrown. */
  readonly signal: AbortSignal
  /** Called when the request has gone out whole: from then on it may have cost something. */
  onSent?(): void
}

// Its fetch path neither stops a backend nor leaves an answer alone, and this variable switches it on for everything.
if (process.env['FORCE_FETCH_PATH'] !== undefined) {
  throw new Error('FORCE_FETCH_PATH is set: unset it, the gateway needs the native path')
}

const { web } = createProxyServer({})

// The proxy listens on a client's request and answer for what sending.ts and the signal tell already. These never say
// anything, so they keep no listener: one of each serves all requests.

class ProxyRequest extends IncomingMessage {
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

class ProxyResponse extends ServerResponse {
  /** Else the proxy listens for the end of each backend's answer. */
  override finished = true

  override on(): this {
    return this
  }
}

const unanswered = new ProxyResponse(new ProxyRequest('/'))

/** What lives as long as one configured target. */
interface Line {
  readonly base: URL
  /** The base in the parts that the proxy asks for: a URL makes them anew for each request, which keeps them. */
  readonly target: ReturnType<typeof partsOf>
  readonly connections: Connections
  readonly headers: Readonly<Record<string, string>>
  /** By endpoint path. */
  readonly requests: Map<string, ProxyRequest>
}

const lines = new WeakMap<Target, Line>()

/** Throws GatewayErrors alone. */
export async function forward(attempt: Attempt): Promise<BackendAnswer> {
  const line = lines.get(attempt.target) ?? (await openLine(attempt))
  if (attempt.signal.aborted) throw abortError(attempt.signal)
  const { connections } = line
  try {
    return await send(attempt, { line, agent: connections.reusing })
  } catch (failure) {
    if (!(failure instanceof DeadConnection)) throw failure
  }
  return await send(attempt, { line, agent: connections.fresh })
}

let demo: ReturnType<typeof startDemo> | undefined

async function openLine({ target, model }: Attempt): Promise<Line> {
  const base = new URL(target.url === 'demo' ? (await (demo ??= startDemo())).url : target.url)
  const known = lines.get(target)
  if (known) return known
  const { connectMs } = model.timeouts
  const line = {
    base,
    target: partsOf(base),
    connections: openConnections({ url: base, ca: target.ca, connectMs }),
    headers: ownHeaders(target, base),
    requests: new Map<string, ProxyRequest>(),
  }
  lines.set(target, line)
  return line
}

function send(attempt: Attempt, { line, agent }: { line: Line; agent: Agent }) {
  const { request, signal, onSent } = attempt
  return new Promise<BackendAnswer>((resolve, reject) => {
    const sending = new Sending({ body: request.body, signal, onSent, resolve, reject })
    const options = {
      target: line.target,
      agent,
      toProxy: true, // the path goes out as it stands
      prependPath: false,
      selfHandleResponse: true,
      headers: requestHeaders(request, line.headers),
      buffer: sending,
    }
    try {
      web(requestTo(line, request.path), unanswered, options, sending.failed)
    } catch (error) {
      // A header value that HTTP cannot carry; it must not leave a listener on the signal.
      sending.failed(error instanceof Error ? error : new Error(String(error)))
    }
  })
}

function partsOf(base: URL) {
  const { protocol, host, hostname, href } = base
  return { protocol, host, hostname, port: portOf(base), href }
}

/** The target's path before the endpoint's; its query, such as an API version, stays behind both. */
function requestTo({ base, requests }: Line, path: string): ProxyRequest {
  const known = requests.get(path)
  if (known) return known
  const request = new ProxyRequest(base.pathname.replace(/\/$/, '') + path + base.search)
  requests.set(path, request)
  return request
}
