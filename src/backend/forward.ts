// One attempt at one backend, through http-proxy-3's native path, as a promise of its headers. Promises: only our own
// headers go out, an abort closes the backend's socket at once, an answer that was cut says so, redirects are not followed.
// Tries again once where an idle connection was dead and nothing was answered; all other trying again is the caller's.

import type { Agent } from 'node:http'
import { createProxyServer } from 'http-proxy-3'
import type { Model, Target } from '../config/config.ts'
import type { BackendRequest } from '../exchange.ts'
import { Connections } from './connections.ts'
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

/** The part of http-proxy-3 that is used, typed for plain objects in place of an http server's. */
type Web = (req: object, res: object, options: object, failed: (error: Error) => void) => void

const web = createProxyServer({}).web as unknown as Web
const listen = (): void => {}
const plainRequest = {
  method: 'POST',
  httpVersionMajor: 1,
  headers: {},
  socket: { destroyed: false },
  on: listen,
}
const plainResponse = { on: listen, finished: true, headersSent: true }

/** What lives as long as one configured target. */
interface Line {
  readonly base: URL
  /** The base in the parts that the proxy asks for: a URL works each of them out anew. */
  readonly target: object
  readonly connections: Connections
  readonly headers: Readonly<Record<string, string>>
  /** By endpoint path. */
  readonly requests: Map<string, object>
}

const lines = new WeakMap<Target, Line>()

/** Throws GatewayErrors alone. */
export async function forward(attempt: Attempt): Promise<BackendAnswer> {
  const line = lines.get(attempt.target) ?? (await openLine(attempt))
  if (attempt.signal.aborted) throw abortError(attempt.signal)
  const { reusing, fresh } = line.connections
  try {
    return await send(attempt, { line, agent: reusing })
  } catch (failure) {
    if (!(failure instanceof DeadConnection)) throw failure
  }
  return await send(attempt, { line, agent: fresh })
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
    connections: new Connections({ url: base, ca: target.ca, connectMs }),
    headers: ownHeaders(target, base),
    requests: new Map<string, object>(),
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
      web(requestTo(line, request.path), plainResponse, options, sending.failed)
    } catch (error) {
      // A header value that HTTP cannot carry; it must not leave a listener on the signal.
      sending.failed(error instanceof Error ? error : new Error(String(error)))
    }
  })
}

function partsOf({ protocol, host, hostname, port, href }: URL): object {
  return { protocol, host, hostname, port, href }
}

/** The target's path before the endpoint's; its query, such as an API version, stays behind both. */
function requestTo({ base, requests }: Line, path: string): object {
  const known = requests.get(path)
  if (known) return known
  const request = { ...plainRequest, url: base.pathname.replace(/\/$/, '') + path + base.search }
  requests.set(path, request)
  return request
}
