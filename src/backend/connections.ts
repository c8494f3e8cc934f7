// The connections to one target: kept alive, last used first, as many as needed. In place of http.Agent's own keeping
// (names, queues, limits for many hosts), which costs 19 µs of 137 a request. Bounds connecting, TLS included; an idle
// connection that says anything is dropped, so that no answer can be taken for that of the next request.

import { Agent } from 'node:http'
import type { ClientRequest } from 'node:http'
import { connect as connectTcp, isIP } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export interface ConnectOptions {
  readonly url: URL
  /** PEM. */
  readonly ca: string | undefined
  readonly connectMs: number
}

/** Most servers close after 5 s, hosted ones after minutes. */
const idleMs = 60_000

export class Connections {
  readonly #options: ConnectOptions
  readonly #idle: Socket[] = []
  #session: Buffer | undefined
  /** Takes an idle connection where there is one. */
  readonly reusing: Agent
  /** Always connects anew: for the second try after an idle connection turned out to be dead. */
  readonly fresh: Agent

  constructor(options: ConnectOptions) {
    this.#options = options
    this.reusing = new Lane(options.url.protocol, (req) => {
      const socket = this.#take()
      if (socket) req.reusedSocket = true
      return socket ?? this.#open()
    })
    this.fresh = new Lane(options.url.protocol, () => this.#open())
  }

  get idle(): number {
    return this.#idle.length
  }

  /** Closes what is idle. What is in use closes when it is idle for a minute. */
  close(): void {
    for (const socket of this.#idle) socket.destroy()
  }

  #take(): Socket | undefined {
    for (let socket = this.#idle.pop(); socket; socket = this.#idle.pop()) {
      socket.off('data', destroyThis)
      socket.setTimeout(0)
      if (socket.destroyed || !socket.writable || socket.readableEnded) continue
      socket.ref()
      return socket
    }
    return undefined
  }

  #open(): Socket {
    const socket = this.#dial()
    const isTls = this.#options.url.protocol === 'https:'
    const timer = setTimeout(() => {
      const error = new Error('connect time-out')
      socket.destroy(Object.assign(error, { code: 'ETIMEDOUT' }))
    }, this.#options.connectMs)
    socket.once(isTls ? 'secureConnect' : 'connect', () => clearTimeout(timer))
    // While in use http listens too; an idle one's failure is nobody's.
    socket.on('error', () => {})
    socket.on('timeout', destroyThis)
    socket.on('free', () => this.#put(socket))
    socket.once('close', () => {
      clearTimeout(timer)
      const at = this.#idle.indexOf(socket)
      if (at >= 0) this.#idle.splice(at, 1)
    })
    return socket
  }

  #put(socket: Socket): void {
    if (socket.destroyed || !socket.writable) return
    socket.on('data', destroyThis)
    socket.setTimeout(idleMs)
    socket.unref()
    this.#idle.push(socket)
  }

  #dial(): Socket {
    const { url, ca } = this.#options
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80)
    const tcp = { host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000 }
    if (url.protocol !== 'https:') return connectTcp(tcp)
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

function destroyThis(this: Socket): void {
  this.destroy()
}

/** What node:http asks for a socket. Frees nothing itself: sockets go back to their Connections. */
class Lane extends Agent {
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
