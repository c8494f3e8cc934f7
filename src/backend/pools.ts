// The connections to backends, by address, CA and connect time-out: a reload makes new targets, and those with the same
// three go on with the connections that are there.

import type { Config, Model, Target } from '../config/config.ts'
import type { Connections } from './agents.ts'
import { openConnections } from './connections.ts'

const pools = new Map<string, Connections>()

type Dialled = Pick<Target, 'url' | 'ca'>

/** `url` is the target's; the built-in model has another one on the wire. */
export function connectionsTo(url: URL, target: Dialled, { connectMs }: Model['timeouts']) {
  const name = nameOf(target, connectMs)
  const known = pools.get(name)
  if (known) return known
  const opened = openConnections({ url, ca: target.ca, connectMs })
  pools.set(name, opened)
  return opened
}

/** Closes the idle connections to targets that none of these configurations has. */
export function keepConnections(configs: readonly Pick<Config, 'models'>[]): void {
  const models = configs.flatMap((config) => [...config.models.values()])
  const kept = new Set(
    models.flatMap(({ targets, timeouts }) =>
      targets.map((target) => nameOf(target, timeouts.connectMs)),
    ),
  )
  for (const [name, connections] of pools) {
    if (kept.has(name)) continue
    connections.close()
    pools.delete(name)
  }
}

function nameOf({ url, ca = '' }: Dialled, connectMs: number): string {
  return `${connectMs} ${url}\n${ca}`
}
