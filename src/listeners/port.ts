// Opens and closes a port. Node accepts one connection for each socket that listens, in each turn of its loop (libuv, since
// 1.45). Under load, when turns are long, connections would wait for seconds, so a busy port has several sockets. Linux
// spreads connections over them; elsewhere there is one.

import type { Server } from 'node:http'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import type { Listen } from '../config/config.ts'

export interface Sharing {
  /**
   * Where many connections come: they are accepted faster, and other processes can join. `joined`: a process of this
   * gateway has the port already.
   */
  readonly wide?: 'first' | 'joined'
}

export interface OpenPort {
  /** One for each socket. */
  readonly servers: readonly Server[]
  readonly port: number
}

const canShare = process.platform === 'linux'
const socketsOfWide = 8
const backlog = 4096

/** Rejects when it cannot listen on the address, and then no socket is left open. */
export async function openPort(
  create: () => Server,
  { host, port: wanted, wide }: Pick<Listen, 'host' | 'port'> & Sharing,
): Promise<OpenPort> {
  // Without reusePort, node:cluster shares the port.
  const reusePort = wide !== undefined && canShare
  if (reusePort && wide === 'first' && wanted !== 0) await ensureFree(host, wanted)
  const servers: Server[] = []
  let port = wanted
  try {
    for (let i = 0; i < (reusePort ? socketsOfWide : 1); i++) {
      const server = create()
      server.listen({ host, port, backlog, reusePort })
      await once(server, 'listening')
      servers.push(server)
      port = (server.address() as AddressInfo).port
    }
  } catch (error) {
    for (const server of servers) server.close()
    throw error
  }
  return { servers, port }
}

/**
 * Rejects when the port is taken. `reusePort` alone would not tell when another program of this user shares it, too.
 */
export async function ensureFree(host: string, port: number): Promise<void> {
  const server = createServer()
  try {
    // In a worker, node:cluster would ask the supervisor.
    server.listen({ host, port, exclusive: true })
    await once(server, 'listening')
  } finally {
    server.close()
  }
}

/** Cuts connections that are still open after `graceMs`. Needs `sockets`, because the HTTP server does not know connections that have not finished their TLS handshake. */
export async function closePort(
  servers: readonly Server[],
  sockets: ReadonlySet<Socket>,
  graceMs: number,
): Promise<void> {
  const closing = servers.filter(({ listening }) => listening)
  const closed = closing.map((server) => once(server, 'close'))
  for (const server of closing) server.close()
  const timer = setTimeout(() => {
    for (const socket of sockets) socket.destroy()
  }, graceMs)
  await Promise.all(closed)
  clearTimeout(timer)
}
