// Connections to some ports of this machine go to other ports, as a router would send them. The servers of a Cluster, and
// Sentinels, name each other by their own ports, so a line to one of them can't be given in gateway.yaml. A gateway's
// process loads this file before its own code (`--import`).

import net from 'node:net'
import type { NetConnectOpts, Socket } from 'node:net'
import type { Line } from './line.ts'

const variable = 'CHAOS_DETOURS'

/** For the environment of a gateway: these lines instead of these ports. */
export function detours(lines: ReadonlyMap<number, Line>): Readonly<Record<string, string>> {
  return { [variable]: JSON.stringify([...lines].map(([port, line]) => [port, line.port])) }
}

export const detourFlags: readonly string[] = [`--import=${import.meta.url}`]

const given = process.env[variable]
if (given !== undefined) {
  const ways = new Map(JSON.parse(given) as [number, number][])
  const { createConnection } = net
  const detoured = (options: NetConnectOpts): NetConnectOpts =>
    typeof options === 'object' && 'port' in options
      ? { ...options, port: ways.get(options.port) ?? options.port }
      : options
  Object.assign(net, {
    createConnection: (options: NetConnectOpts, connected?: () => void): Socket =>
      createConnection(detoured(options), connected),
  })
}
