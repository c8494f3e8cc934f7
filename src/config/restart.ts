// The part of a configuration that a running gateway can't change: its ports, its data and its connections. A reload
// takes over the rest, and says which keys wait for a restart.

import type { Config } from './config.ts'
import type { Path } from './problem.ts'

/** Keys that are read once, when the gateway starts; with all keys below them. */
const readOnce: readonly Path[] = [
  ['listen', 'host'],
  ['listen', 'port'],
  ['admin', 'listen'],
  ['data'],
  ['redis'],
  ['workers'],
  ['store'],
  ['limits', 'headers'],
  ['plugins', 'metering', 'lease'],
  ['plugins', 'metering', 'time_zone'],
]

/** Plugins that can change while the gateway runs, but cannot be switched on or off. */
const fixedPlugins = ['metering', 'files']

/** Blocks that a reload can neither add nor remove. */
const fixed: readonly Path[] = [['listen', 'tls'], ...fixedPlugins.map((name) => ['plugins', name])]

export interface ValueChange {
  readonly path: Path
  /** Undefined when the key is new. */
  readonly from: unknown
  /** Undefined when the key has gone. */
  readonly to: unknown
}

export function needsRestart({ path, from, to }: ValueChange): boolean {
  if (readOnce.some((start) => startsWith(path, start))) return true
  const comesOrGoes = isAbsent(from) !== isAbsent(to)
  return comesOrGoes && fixed.some((one) => path.length === one.length && startsWith(path, one))
}

function startsWith(path: Path, start: Path): boolean {
  return start.every((step, i) => path[i] === step)
}

/** A plugin that is switched off is `false`. */
function isAbsent(value: unknown): boolean {
  return value === undefined || value === false
}

/** The part of a running configuration that only a restart changes. */
export type Fixed = Pick<
  Config,
  'listen' | 'admin' | 'data' | 'redis' | 'workers' | 'store' | 'limits' | 'plugins'
>

/**
 * For another process of the same gateway. Of the plugins it has only the fixed ones: the block of an operator's own
 * plugin may be anything.
 */
export function fixedOf({ plugins, ...config }: Config): Fixed {
  const { listen, admin, data, redis, workers, store, limits } = config
  const kept = [...plugins].filter(([name]) => fixedPlugins.includes(name))
  return { listen, admin, data, redis, workers, store, limits, plugins: new Map(kept) }
}

/** The next configuration, but with the running one's keys where a change needs a restart. */
export function withRunning(next: Config, running: Fixed): Config {
  const { host, port, tls } = running.listen
  const { trustedProxies } = next.listen
  const listen = { host, port, trustedProxies, ...(tls && { tls: next.listen.tls ?? tls }) }
  return {
    ...next,
    listen,
    admin: { ...next.admin, listen: running.admin.listen },
    data: running.data,
    redis: running.redis,
    workers: running.workers,
    store: running.store,
    limits: { ...next.limits, headersMs: running.limits.headersMs },
    plugins: withPlugins(next.plugins, running.plugins),
  }
}

function withPlugins(next: Config['plugins'], running: Config['plugins']): Config['plugins'] {
  const plugins = new Map(next)
  for (const name of fixedPlugins) {
    const block = running.get(name)
    if (block === undefined) plugins.delete(name)
    else plugins.set(name, Object.assign({}, next.get(name) ?? block, readOnceIn(name, block)))
  }
  return plugins
}

function readOnceIn(plugin: string, block: unknown): object {
  const isReadOnce = (key: string) =>
    readOnce.some((path) => startsWith(['plugins', plugin, key], path))
  return Object.fromEntries(Object.entries(block ?? {}).filter(([key]) => isReadOnce(key)))
}
