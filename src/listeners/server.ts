// A listener, public or admin: node:http or node:https with the time-outs of docs/api.md#limits. Promises that a client
// which sends invalid HTTP gets an error in JSON all the same, and that no request is answered twice. Knows no routes.

import type { IncomingMessage, Server, ServerOptions, ServerResponse } from 'node:http'
import { randomBytes } from 'node:crypto'
import { Server as HttpsServer } from 'node:https'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { Limits, Listen } from '../config/config.ts'
import { GatewayError, asGatewayError, codeOf } from '../errors.ts'
import { newId } from '../ids.ts'
import type { Log } from '../log.ts'
import { http } from '../node-http.ts'
import { onBodyWanted } from '../http/body.ts'
import { noteAnswer, refuseUnparsed } from './connection.ts'
import { lookAtFirstByte } from './first-byte.ts'
import { closePort, openPort } from './port.ts'
import type { Sharing } from './port.ts'
import { malformed } from '../http/refusals.ts'
import { sendError } from '../http/reply.ts'
import { unsoundness } from './strict.ts'

export interface HttpListener {
  readonly port: number
  /** Such as `http://127.0.0.1:8080`. */
  readonly address: string
  /** How many connections are open. */
  readonly connections: number
  /** For connections that are made from now on: the certificate, if there was one before. For all: how long they may be idle. */
  adjust(listen: Listen, limits: Pick<Limits, 'keepAliveMs'>): void
  /** Resolves when no connection waits to be accepted, or after `withinMs`, or when `hurry` fires. */
  caughtUp(withinMs: number, hurry?: AbortSignal): Promise<void>
  /** From now on `onDrainingRequest` serves new requests, and their connections are closed; running requests go on. */
  drain(): void
  /** Catches up, then stops listening; connections that are still open after `closeGraceMs` are cut. */
  close(hurry?: AbortSignal): Promise<void>
}

export type OnRequest = (req: IncomingMessage, res: ServerResponse) => void | Promise<void>

export interface ListenerOptions {
  readonly listen: Listen & Sharing
  readonly limits: Pick<Limits, 'headersMs' | 'keepAliveMs'>
  readonly onRequest: OnRequest
  /** Serves requests that come during the drain. */
  readonly onDrainingRequest: OnRequest
  /** Called for each refusal that is answered here, without onRequest or onDrainingRequest. */
  readonly onRefused: (error: GatewayError, requestId: string) => void
  readonly log: Log
}

/** Rejects when it cannot listen on the address. */
export async function createListener(options: ListenerOptions): Promise<HttpListener> {
  const { listen } = options
  const gate = { draining: false }
  const sockets = new Set<Socket>()
  let accepted = 0
  // One for all sockets: else a client could resume its TLS session only where it began it.
  const ticketKeys = randomBytes(48)
  const caughtUp = (withinMs: number, hurry?: AbortSignal) =>
    untilQuiet(() => accepted, withinMs, hurry)
  const create = () => {
    const server = createServer(options, ticketKeys)
    handleRequests(server, options, gate)
    server.prependListener('connection', (socket) => {
      accepted++
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
    })
    return server
  }
  const { servers, port } = await openPort(create, listen)
  return {
    port,
    address: addressOf(listen, port),
    get connections() {
      return sockets.size
    },
    adjust({ tls }, { keepAliveMs }) {
      for (const server of servers) {
        if (tls && server instanceof HttpsServer) server.setSecureContext(tls)
        server.keepAliveTimeout = keepAliveMs
      }
    },
    caughtUp,
    drain() {
      gate.draining = true
    },
    async close(hurry) {
      await caughtUp(closeGraceMs, hurry)
      await closePort(servers, sockets, closeGraceMs)
    },
  }
}

function createServer({ listen, limits }: ListenerOptions, ticketKeys: Buffer): Server {
  const options: ServerOptions = {
    maxHeaderSize: 16 * 1024,
    headersTimeout: limits.headersMs,
    connectionsCheckingInterval: Math.min(5000, limits.headersMs),
    keepAliveTimeout: limits.keepAliveMs,
    // Bodies have time-outs of their own.
    requestTimeout: 0,
    insecureHTTPParser: false,
    // strict.ts checks the Host header, because Node's own refusal is not JSON.
    requireHostHeader: false,
  }
  const { tls } = listen
  const server = tls
    ? new HttpsServer({ ...options, ...tls, ticketKeys, handshakeTimeout: limits.headersMs })
    : http.createServer(options)
  // Node would silently drop headers over 2000; maxHeaderSize bounds them already.
  server.maxHeadersCount = 0
  return server
}

function handleRequests(
  server: Server,
  options: ListenerOptions,
  gate: { draining: boolean },
): void {
  const { log, onRequest, onDrainingRequest, onRefused } = options
  const refuse = (res: ServerResponse, error: GatewayError) => onRefused(error, refused(res, error))
  const unparsed = (socket: Duplex, error: GatewayError) => {
    const id = refuseUnparsed(socket, error)
    if (id !== undefined) onRefused(error, id)
  }
  const take = (req: IncomingMessage, res: ServerResponse) => {
    const verdict = noteAnswer(req, res)
    if (verdict === 'ignore') return
    const crowded = verdict === 'refuse' ? new GatewayError('overloaded') : undefined
    const unsound = unsoundness(req) ?? crowded
    if (unsound) return refuse(res, unsound)
    if (gate.draining) res.shouldKeepAlive = false
    void serve(gate.draining ? onDrainingRequest : onRequest, req, res, log)
  }
  server.on('request', take)
  server.on('checkContinue', (req, res) => {
    onBodyWanted(req, () => res.writeContinue())
    take(req, res)
  })
  server.on('checkExpectation', (req, res) => {
    if (noteAnswer(req, res) !== 'ignore') refuse(res, malformed(unknownExpect))
  })
  if (options.listen.tls) {
    const onPlain = (socket: Socket) => unparsed(socket, malformed(notSecure))
    lookAtFirstByte(server, { withinMs: options.limits.headersMs, onPlain })
  }
  server.on('connect', (_req, socket: Duplex) => unparsed(socket, malformed(notAProxy)))
  server.on('clientError', (error, socket) => {
    const refusal = clientRefusal(error)
    if (!refusal) return void socket.destroy()
    log.debug({ err: error, code: refusal.code }, 'refused bytes that are not a valid HTTP request')
    unparsed(socket, refusal)
  })
}

async function serve(
  handler: OnRequest,
  req: IncomingMessage,
  res: ServerResponse,
  log: Log,
): Promise<void> {
  try {
    await handler(req, res)
  } catch (thrown) {
    const id = newId('req')
    log.error({ err: thrown, id }, 'a request failed outside its lifecycle')
    sendError(res, { id, replyHeaders: {} }, asGatewayError(thrown))
  }
}

/** Sends the refusal and closes the connection, whose state is in doubt. Returns the answer's id. */
function refused(res: ServerResponse, error: GatewayError): string {
  const id = newId('req')
  res.shouldKeepAlive = false
  sendError(res, { id, replyHeaders: {} }, error)
  return id
}

const unknownExpect = 'The Expect header may only be "100-continue".'
const notAProxy = 'This server is not a proxy and does not accept CONNECT.'
const notSecure = 'This port accepts HTTPS only. Write https:// in place of http://.'

const parserErrors: Readonly<Record<string, 'headers_too_large' | 'request_timeout'>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** Returns undefined when the connection broke, so that there is nobody to answer. */
function clientRefusal(error: Error): GatewayError | undefined {
  const code = codeOf(error)
  const known = parserErrors[code]
  if (known) return new GatewayError(known, { cause: error })
  return code.startsWith('HPE_')
    ? new GatewayError('malformed_request', { cause: error })
    : undefined
}

/**
 * After this many turns of the loop without a new connection, none waits, and what the earlier ones had sent is read.
 */
const quietTurns = 10

/** Connections that still wait when the port closes are reset: a load balancer then cannot tell whether its request was served. */
async function untilQuiet(
  accepted: () => number,
  withinMs: number,
  hurry: AbortSignal | undefined,
): Promise<void> {
  const until = performance.now() + withinMs
  for (let quiet = 0; quiet < quietTurns; quiet++) {
    if (performance.now() > until || hurry?.aborted) return
    const before = accepted()
    await turn()
    if (accepted() !== before) quiet = 0
  }
}

const closeGraceMs = 2500

function addressOf({ host, tls }: Listen, port: number): string {
  const name = host.includes(':') ? `[${host}]` : host
  return `${tls ? 'https' : 'http'}://${name}:${port}`
}
