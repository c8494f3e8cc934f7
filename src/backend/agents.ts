// Node's own agents for one target, for when `connection-list` is switched off. They keep the promises of
// connections.ts: connecting has a time limit, TLS included, and an idle connection that received anything is not used
// again. When a request takes such a connection, the connection is destroyed; the request fails as if the backend had
// closed it, and is tried on a fresh one.

import type { Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { Socket, isIP } from 'node:net'
import { http } from '../node-http.ts'
import { PatientTimer } from '../sharing/patience.ts'

export interface DialOptions {
  readonly url: URL
  /** PEM. */
  readonly ca: string | undefined
  readonly connectMs: number
}

/** The connections to one target. */
export interface Connections {
  /** Takes an idle connection where there is one. */
  readonly reusing: HttpAgent
  /** An agent that connects anew: for the second try after an idle connection turned out to be dead. */
  fresh(): HttpAgent
  /** How many connections are idle. */
  readonly idle: number
  /** Closes the idle connections. A connection in use closes when it has been idle for a minute. */
  close(): void
}

/** How long a connection may be idle. Most servers close one after 5 s, hosted ones after minutes. */
export const idleMs = 60_000

export function agentsFor(options: DialOptions): Connections {
  const agent = agentOf(options)
  const idle = () => Object.values(agent.freeSockets).flatMap((sockets) => sockets ?? [])
  const close = () => {
    for (const socket of idle()) socket.destroy()
  }
  return {
    reusing: agent,
    /** An agent cannot be told to skip its idle connections: when one was dead, all idle ones are closed. */
    fresh() {
      close()
      return agent
    },
    get idle() {
      return idle().length
    },
    close,
  }
}

function agentOf({ url, ca, connectMs }: DialOptions): HttpAgent {
  const shared = {
    keepAlive: true,
    keepAliveMsecs: 30_000,
    maxFreeSockets: Infinity,
    timeout: idleMs,
  }
  if (url.protocol !== 'https:') return bounded(new http.Agent(shared), connectMs, 'connect')
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const servername = isIP(host) ? '' : host
  const tls = { ...shared, ...(ca && { ca }), servername, ALPNProtocols: ['http/1.1'] }
  return bounded(new HttpsAgent(tls), connectMs, 'secureConnect')
}

/**
 * Bounds connecting, and notes how much an idle connection had read, in the methods that Node has for extending an
 * agent. Newer releases of Node 24 close an idle connection that receives anything; the first releases do not.
 */
function bounded(
  agent: HttpAgent,
  connectMs: number,
  connected: 'connect' | 'secureConnect',
): HttpAgent {
  const { createConnection, keepSocketAlive, reuseSocket } = agent
  const bytesRead = new WeakMap<object, number>()
  agent.createConnection = (...args) => {
    const socket = createConnection.apply(agent, args)
    if (!(socket instanceof Socket)) return socket
    socket.once('close', boundConnecting(socket, connectMs, connected))
    // While a connection is in use, http listens, too; the failure of an idle connection concerns nobody.
    return socket.on('error', () => {})
  }
  agent.keepSocketAlive = (socket) => {
    if (socket instanceof Socket) bytesRead.set(socket, socket.bytesRead)
    return keepSocketAlive.call(agent, socket)
  }
  agent.reuseSocket = (socket, req) => {
    reuseSocket.call(agent, socket, req)
    const isSilent = socket instanceof Socket && socket.bytesRead === bytesRead.get(socket)
    if (!isSilent || socket.readableLength > 0) socket.destroy()
  }
  return agent
}

/**
 * Returns the function that must be called when the socket closes. If a step of connecting was done while this process stood
 * still, the next one, such as TLS, has the whole time again.
 */
export function boundConnecting(
  socket: Socket,
  connectMs: number,
  connected: 'connect' | 'secureConnect',
): () => void {
  const timer = new PatientTimer(() => {
    const error = new Error('connect time-out')
    socket.destroy(Object.assign(error, { code: 'ETIMEDOUT' }))
  }, connectMs)
  const clear = () => timer.clear()
  const goOn = () => {
    if (timer.isLate) timer.refresh()
  }
  socket.once('lookup', goOn)
  socket.once('connect', goOn)
  socket.once(connected, clear)
  return clear
}
