// The connections to one target: kept alive, last used first, as many as needed. Replaces http.Agent's own keeping
// (names, queues, limits for many hosts), which costs 19 µs of the 137 µs of a request. Bounds connecting, TLS
// included. An idle connection that received anything is not used again, so that this cannot be taken for the answer to
// the next request.

import type { Agent, ClientRequest } from 'node:http'
import { connect as connectTcp, isIP } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { http } from '../node-http.ts'
import { plain } from '../plain.ts'
import { agentsFor, boundConnecting, idleMs } from './agents.ts'
import type { DialOptions, Connections } from './agents.ts'

export type { Connections } from './agents.ts'

const sweepMs = 5000

export function openConnections(options: DialOptions): Connections {
  return plain.has('connection-list') ? agentsFor(options) : new ConnectionList(options)
}

export function portOf({ port, protocol }: URL): number {
  return Number(port) || (protocol === 'https:' ? 443 : 80)
}

class ConnectionList implements Connections {
  readonly #options: DialOptions
  /** Longest idle first. */
  readonly #idle: Kept[] = []
  #sweeping: NodeJS.Timeout | undefined
  #session: Buffer | undefined
  readonly reusing: Agent
  readonly #fresh: Agent

  constructor(options: DialOptions) {
    this.#options = options
    this.reusing = new Lane(options.url.protocol, (req) => {
      const socket = this.#take()
      if (socket) req.reusedSocket = true
      return socket ?? this.#open()
    })
    this.#fresh = new Lane(options.url.protocol, () => this.#open())
  }

  get idle(): number {
    return this.#idle.length
  }

  fresh(): Agent {
    return this.#fresh
  }

  close(): void {
    for (const { socket } of this.#idle) socket.destroy()
  }

  #take(): Socket | undefined {
    for (let kept = this.#idle.pop(); kept; kept = this.#idle.pop()) {
      if (!isUsable(kept.socket)) continue
      if (isSilent(kept)) return kept.socket.ref()
      kept.socket.destroy()
    }
    return undefined
  }

  #open(): Socket {
    const socket = this.#dial()
    const isTls = this.#options.url.protocol === 'https:'
    const connected = isTls ? 'secureConnect' : 'connect'
    const clear = boundConnecting(socket, this.#options.connectMs, connected)
    // While a connection is in use, http listens, too; the failure of an idle connection concerns nobody.
    socket.on('error', () => {})
    const kept: Kept = { socket, idleSince: 0, bytesRead: 0 }
    socket.on('free', () => this.#put(kept))
    socket.once('close', () => {
      clear()
      const at = this.#idle.indexOf(kept)
      if (at >= 0) this.#idle.splice(at, 1)
    })
    return socket
  }

  #put(kept: Kept): void {
    if (!isUsable(kept.socket)) return
    kept.socket.unref()
    kept.idleSince = performance.now()
    kept.bytesRead = kept.socket.bytesRead
    this.#idle.push(kept)
    this.#sweeping ??= setInterval(() => this.#sweep(), sweepMs).unref()
  }

  /** One timer for all connections costs less than one for each time that a connection becomes idle. */
  #sweep(): void {
    const before = performance.now() - idleMs
    for (const kept of this.#idle) {
      if (kept.idleSince <= before || !isSilent(kept)) kept.socket.destroy()
    }
    if (this.#idle.length > 0) return
    clearInterval(this.#sweeping)
    this.#sweeping = undefined
  }

  #dial(): Socket {
    const { url, ca } = this.#options
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const port = portOf(url)
    const tcp = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000 }
    if (url.protocol !== 'https:') {
      return connectTcp(plain.has('receive-buffer') ? tcp : { ...tcp, onread: intoOneBuffer })
    }
    const socket = connectTls({
      ...tcp,
      ...(ca && { ca }),
      ...(this.#session && { session: this.#session }),
      servername: isIP(host) ? '' : host,
      ALPNProtocols: ['http/1.1'],
    })
    socket.on('session', (session) => (this.#session = session))
    return socket
  }
}

/** All sockets read into one buffer, because http's parser copies what it keeps. Node would allocate 64 KiB for each read, which takes 3 µs. */
const intoOneBuffer = {
  buffer: Buffer.allocUnsafeSlow(64 * 1024),
  callback(this: Socket, bytes: number, buffer: Uint8Array): boolean {
    this.emit('data', buffer.subarray(0, bytes))
    return true
  },
}

interface Kept {
  readonly socket: Socket
  /** `performance.now()` when it was last put back. */
  idleSince: number
  /** How many bytes the socket had read by then. */
  bytesRead: number
}

/** Whether the backend has sent nothing while the connection was idle. A listener would cost more: adding and removing one starts and stops the stream. */
function isSilent({ socket, bytesRead }: Kept): boolean {
  return socket.bytesRead === bytesRead && socket.readableLength === 0
}

function isUsable(socket: Socket): boolean {
  return !socket.destroyed && socket.writable && !socket.readableEnded
}

/** The agent that node:http asks for a socket. Frees nothing itself: sockets go back to their Connections. */
class Lane extends http.Agent {
  readonly #socketFor: (req: ClientRequest) => Socket
  /** Read by node:http, which refuses an agent for another protocol. */
  readonly protocol: string

  constructor(protocol: string, socketFor: (req: ClientRequest) => Socket) {
    super({ keepAlive: true })
    this.protocol = protocol
    this.#socketFor = socketFor
  }

  addRequest(req: ClientRequest): void {
    req.onSocket(this.#socketFor(req))
  }
}
