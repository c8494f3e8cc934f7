// The scripted server: gives each request the answer that the run has for it, byte for byte, cut where the script says,
// and records what came. Acts as an API, as the proxy of the environment, and as a stranger's origin. It checks
// nothing.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { readRequest } from './request.ts'
import type { Sent } from './request.ts'

/** Text to write, or something to wait for before the next piece. */
export type Piece =
  | string
  | Buffer
  /** Until so many requests have come to this run. */
  | { readonly requests: number }
  /** So long. A scripted server's pace; nothing is measured by it. */
  | { readonly pauseMs: number }
  /** Until the client's side takes no more, or has taken all. */
  | { readonly stalled: true }

export interface Answer {
  /** `GET /v1/models`: only a request that begins like this gets the answer; absent: the next request gets it. */
  readonly on?: string
  readonly status?: number
  /** `{base}` and `{other}` in a value stand for the two origins. */
  readonly headers?: Readonly<Record<string, string>>
  readonly json?: unknown
  readonly body?: Iterable<Piece>
  /** whole: ends as HTTP demands; fin, reset: the connection ends before the answer; open: it stays silent. */
  readonly end?: 'whole' | 'fin' | 'reset' | 'open'
  /** The connection ends like this before the answer's first byte. `open`: nothing ever comes. */
  readonly drop?: 'fin' | 'reset' | 'open'
  /** The answer with its head, written to the connection exactly as it is here. */
  readonly raw?: Iterable<Piece>
  /** Answers without having read the request's body. */
  readonly early?: boolean
}

export interface ScriptedServer {
  readonly url: string
  /** A second origin with the same script. */
  readonly other: string
  /** A port where nobody listens. */
  readonly closed: string
  /** A port that accepts connections and sends nothing, not even for TLS. */
  readonly silent: string
  readonly sent: readonly Sent[]
  /** What the server could not do as the script says. */
  readonly failures: readonly string[]
  close(): Promise<void>
}

export async function startServer(answers: readonly Answer[]): Promise<ScriptedServer> {
  const left = [...answers]
  const sent: Sent[] = []
  const failures: string[] = []
  const arrivals = new Set<() => void>()
  const servers = [createServer(), createServer()] as const
  const origins = { base: '', other: '' }
  const quiet = createTcpServer()
  const sockets = new Set<Duplex>()

  const stage: Stage = {
    fill: (text) => text.replaceAll('{base}', origins.base).replaceAll('{other}', origins.other),
    async arrived(count) {
      while (sent.length < count) await new Promise<void>((resolve) => arrivals.add(resolve))
    },
  }
  const answer = async (request: IncomingMessage, response: ServerResponse, isOther: boolean) => {
    const name = `${request.method} ${(request.url ?? '').replace(/^http:\/\/[^/]+/, '')}`
    const at = left.findIndex(({ on }) => on === undefined || name.startsWith(on))
    const [script] = at < 0 ? [unexpected] : left.splice(at, 1)
    if (!script) return
    const reading = readRequest(request, { isOther, isEarly: script.early ?? false })
    const record = await reading
    sent.push(record)
    for (const wake of arrivals) wake()
    arrivals.clear()
    response.on('close', () => (record.closedEarly = !response.writableFinished))
    await play(script, { response, record, stage })
  }
  for (const [index, server] of servers.entries()) {
    server.on('connection', (socket: Socket) => keep(sockets, socket))
    server.on('request', (request, response) => {
      answer(request, response, index === 1).catch((error: unknown) => {
        // A client that leaves within its body is no fault of the script; everything else here is.
        if (!request.destroyed) failures.push(String(error))
        response.destroy()
      })
    })
    // Some clients ask a proxy for a tunnel even to plain HTTP.
    server.on('connect', (_request, socket: Duplex) => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
      server.emit('connection', socket)
    })
  }
  quiet.on('connection', (socket) => keep(sockets, socket))
  origins.base = await listen(servers[0])
  origins.other = await listen(servers[1])
  const silent = (await listen(quiet)).replace('http:', 'https:')
  const spare = createTcpServer()
  const closed = await listen(spare)
  spare.close()
  return {
    url: origins.base,
    other: origins.other,
    closed,
    silent,
    sent,
    failures,
    async close() {
      for (const wake of arrivals) wake()
      for (const socket of sockets) socket.destroy()
      await Promise.all(
        [...servers, quiet].map((server) => new Promise((done) => server.close(done))),
      )
    },
  }
}

const unexpected: Answer = {
  status: 418,
  json: { error: { message: 'no answer is left for this request', code: 'unexpected_request' } },
}

interface Stage {
  fill(text: string): string
  arrived(count: number): Promise<void>
}

interface Playing {
  readonly response: ServerResponse
  readonly record: Sent
  readonly stage: Stage
}

async function play(answer: Answer, { response, record, stage }: Playing): Promise<void> {
  const { socket } = response
  if (!socket) return
  if (answer.drop) return end(socket, answer.drop)
  if (answer.raw) {
    for (const piece of answer.raw) await write(socket, piece, { record, stage })
    return end(socket, answer.end ?? 'whole')
  }
  const headers = { 'x-request-id': `req_${record.number}`, ...answer.headers }
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, stage.fill(value))
  if (answer.json !== undefined && !response.hasHeader('content-type')) {
    response.setHeader('content-type', 'application/json')
  }
  response.writeHead(answer.status ?? 200)
  if (answer.json !== undefined) return void response.end(JSON.stringify(answer.json))
  response.flushHeaders()
  for (const piece of answer.body ?? []) await write(response, piece, { record, stage })
  if ((answer.end ?? 'whole') === 'whole') return void response.end()
  end(socket, answer.end ?? 'whole')
}

function end(socket: Socket, how: Exclude<Answer['end'], undefined>): void {
  if (how === 'fin' || how === 'whole') socket.end()
  if (how === 'reset') socket.resetAndDestroy()
}

/** Sends each piece before the next one is written, so that the pieces arrive separately, as far as possible. */
async function write(
  to: ServerResponse | Socket,
  piece: Piece,
  { record, stage }: Pick<Playing, 'record' | 'stage'>,
): Promise<void> {
  if (to.destroyed) return
  if (typeof piece === 'string' || Buffer.isBuffer(piece)) {
    const isTaken = to.write(piece)
    record.written += piece.length
    if (!isTaken) await gone(to, 'drain')
    return new Promise((resolve) => setImmediate(resolve))
  }
  if ('requests' in piece) return stage.arrived(piece.requests)
  if ('pauseMs' in piece) return pause(piece.pauseMs)
  const socket = 'socket' in to && to.socket ? to.socket : to
  for (let last = -1; last !== socket.writableLength; await pause(200)) last = socket.writableLength
}

/** Waits for the event, or for the end of the connection. */
async function gone(to: ServerResponse | Socket, event: string): Promise<void> {
  const left = new AbortController()
  await Promise.race([
    once(to, event, { signal: left.signal }),
    once(to, 'close', { signal: left.signal }),
  ]).finally(() => left.abort())
}

function keep(sockets: Set<Duplex>, socket: Socket): void {
  socket.setNoDelay(true)
  sockets.add(socket)
  socket.on('error', () => undefined)
  socket.on('close', () => sockets.delete(socket))
}

async function listen(server: Server | ReturnType<typeof createTcpServer>): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
