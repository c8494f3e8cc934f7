// Makes the Config that the gateway reads from the file's keys: names in camel case, shorthands expanded, file names
// replaced by the files' texts. Everything was checked before, so nothing can fail here. The result is frozen.

import { join } from 'node:path'
import { drivers } from '../store/drivers.ts'
import type { StoreConfig } from '../store/drivers.ts'
import type { Config, Listen, Model, Plan, RedisConfig, Target } from './config.ts'
import { defaultAdmin, parseHostPort } from './host-port.ts'
import { limits } from './keys.ts'
import type { GatewayKeys, PluginKeys } from './keys.ts'
import * as schemas from './model-keys.ts'
import type { ModelKeys, TargetKeys } from './model-keys.ts'
import { named } from './named.ts'
import { plan } from './plan-keys.ts'
import type { z } from './schema.ts'
import { parseRedisUrl } from './words.ts'
import { workerCount } from './workers.ts'

export interface Origin {
  readonly file: string
  /** Texts of PEM files by absolute path. */
  readonly pems: ReadonlyMap<string, string>
  /** By the plugin's key in the file: its name, or the path of an operator's own plugin. */
  readonly plugins: ReadonlyMap<string, PluginKeys>
}

export function resolveConfig(keys: GatewayKeys, origin: Origin): Config {
  const models = new Map(
    Object.entries(keys.models).map(([id, keys]) => [id, resolveModel(id, keys, origin)]),
  )
  return deepFreeze({
    file: origin.file,
    listen: resolveListen(keys.listen, origin),
    admin: {
      listen: resolveAdminListen(keys.admin.listen),
      token: keys.admin.token,
      hosts: keys.admin.hosts.map((host) => host.toLowerCase()),
    },
    data: keys.data,
    workers: workerCount(keys.workers),
    redis: resolveRedis(keys.redis, origin),
    store: resolveStore(keys),
    models,
    plans: resolvePlans(keys.plans, models),
    plugins: resolvePlugins(keys.plugins, origin),
    limits: named(limits, keys.limits),
    reload: keys.reload,
    log: keys.log,
    shutdownDelayMs: keys.shutdown_delay,
    drainMs: keys.drain,
  })
}

/** One of the blocks is there: check.ts has seen to it. */
function resolveStore({ store, data }: GatewayKeys): StoreConfig {
  if (store === 'disk') return { disk: drivers.disk.keys.parse({ path: join(data, 'store') }) }
  const given = Object.entries(store).filter(([, block]) => block !== undefined)
  return Object.fromEntries(given) as StoreConfig
}

function resolveListen(keys: GatewayKeys['listen'], { pems }: Origin): Listen {
  if (typeof keys === 'number') return { host: '0.0.0.0', port: keys, trustedProxies: [] }
  const { host, port, tls, trusted_proxies: trustedProxies } = keys
  if (!tls) return { host, port, trustedProxies }
  return { host, port, tls: { cert: pem(pems, tls.cert), key: pem(pems, tls.key) }, trustedProxies }
}

function resolveAdminListen(keys: GatewayKeys['admin']['listen']): Listen {
  const given = typeof keys === 'object' ? keys : parseHostPort(String(keys))
  return { ...defaultAdmin, ...given, trustedProxies: [] }
}

function resolveRedis(keys: GatewayKeys['redis'], { pems }: Origin): RedisConfig {
  if (keys === 'embedded') return { kind: 'embedded' }
  const block: RedisKeys = typeof keys === 'string' ? { url: keys } : keys
  const { url, cluster, sentinels, name = '', db = 0, tls, username, password } = block
  const files = Object.entries(tls ?? {}).map(([name, file]) => [name, pem(pems, file)])
  const login = {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
  }
  const secured = { tls: Object.fromEntries(files) }
  if (cluster) return { kind: 'cluster', nodes: places(cluster), ...login, ...(tls && secured) }
  if (sentinels) {
    const { sentinel_username: sentinelUsername, sentinel_password: sentinelPassword } = block
    const own = { sentinels: places(sentinels), name, db, sentinelUsername, sentinelPassword }
    return { kind: 'sentinel', ...own, ...login, ...(tls && secured) }
  }
  const at = parseRedisUrl(url ?? '') ?? { host: '', port: 0, db: 0, secure: false }
  const { secure, ...address } = at
  return { kind: 'single', ...address, ...login, ...((secure || tls) && secured) }
}

type RedisKeys = Exclude<GatewayKeys['redis'], string>

function places(texts: readonly string[]) {
  return texts.flatMap((text) => parseHostPort(text) ?? [])
}

function resolveModel(id: string, keys: ModelKeys, origin: Origin): Model {
  const names = named(schemas.model, keys)
  return {
    ...names,
    id,
    targets: keys.targets.map((target, i) =>
      resolveTarget(target, `${i + 1}`, { id, origin, model: keys }),
    ),
    breaker: named(schemas.breaker, keys.breaker),
    queue: named(schemas.queue, keys.queue),
    price: named(schemas.price, keys.price),
    cost: keys.cost && named(schemas.cost, keys.cost),
    promptWindow:
      names.contextWindow === schemas.defaultContextWindow ? Infinity : names.contextWindow,
    onLeave: names.onLeave ?? (names.hiddenReasoning ? 'finish' : undefined),
    timeouts: named(schemas.timeouts, keys.timeouts),
    forwardHeaders: names.forwardHeaders.map((name) => name.toLowerCase()),
  }
}

interface Owner {
  readonly id: string
  readonly origin: Origin
  readonly model: ModelKeys
}

function resolveTarget(given: TargetKeys, name: string, { id, origin, model }: Owner): Target {
  const block = given === 'demo' ? schemas.targetBlock.parse({ demo: true }) : given
  const {
    url,
    demo: _,
    key,
    keyHeader,
    ca,
    maxTokensField,
    continuousUsageStats,
    healthCheck,
    ...keys
  } = named(schemas.targetBlock, block)
  return {
    ...keys,
    name,
    url: url ?? 'demo',
    model: keys.model ?? id,
    // `key: "${NAME:-}"` is empty when NAME is not set: then there is no key.
    ...(key && { key }),
    ...(key && keyHeader && { keyHeader: keyHeader.toLowerCase() }),
    ...(ca && { ca: pem(origin.pems, ca) }),
    headers: lowerCased(keys.headers),
    breaker: named(schemas.breaker, { ...model.breaker, ...keys.breaker }),
    ...(healthCheck && { healthCheck: named(schemas.healthCheck, healthCheck) }),
    ...(maxTokensField && { maxTokensField }),
    includeUsage: keys.includeUsage || continuousUsageStats,
    continuousUsage: continuousUsageStats,
  }
}

function lowerCased(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).map(([name, v]) => [name.toLowerCase(), v]))
}

function resolvePlans(
  keys: GatewayKeys['plans'],
  models: ReadonlyMap<string, Model>,
): ReadonlyMap<string, Plan> {
  const idOf = (name: string) =>
    [...models.values()].find(({ aliases }) => aliases.includes(name))?.id ?? name
  const resolvePlan = (block: z.output<typeof plan>): Plan => ({
    ...named(plan, block),
    models: block.models.map(idOf),
  })
  return new Map(Object.entries(keys).map(([name, block]) => [name, resolvePlan(block)]))
}

function resolvePlugins(
  blocks: GatewayKeys['plugins'],
  { plugins }: Origin,
): ReadonlyMap<string, unknown> {
  const used = [...plugins].filter(([key]) => blocks[key] !== false)
  return new Map(used.map(([key, { name }]) => [name, deepFreeze(blocks[key])]))
}

function pem(texts: ReadonlyMap<string, string>, file: string): string {
  return texts.get(file) ?? ''
}

/** Freezes blocks, lists and the values of Maps. A Map itself can't be frozen, and other objects (a plugin's RegExp) are not. */
function deepFreeze<T>(value: T): T {
  if (value instanceof Map) {
    for (const inner of value.values()) deepFreeze(inner)
    return value
  }
  const prototype: unknown =
    typeof value === 'object' && value !== null ? Object.getPrototypeOf(value) : undefined
  if (prototype !== Object.prototype && prototype !== Array.prototype && prototype !== null)
    return value
  for (const inner of Object.values(value as object)) deepFreeze(inner)
  return Object.freeze(value)
}
