// Makes the Config that the gateway reads from the file's keys: names in camel case, shorthands expanded, file names
// replaced by the files' texts. Everything was checked before, so nothing can fail here. The result is frozen.

import { join } from 'node:path'
import type {
  Config,
  Listen,
  Model,
  Plan,
  RedisConfig,
  S3Config,
  StoreConfig,
  Target,
} from './config.ts'
import { defaultAdmin, parseHostPort } from './host-port.ts'
import { diskBlock } from './keys.ts'
import type { GatewayKeys, PluginKeys, S3Keys } from './keys.ts'
import { defaultContextWindow } from './model-keys.ts'
import type { ModelKeys, PlanKeys, TargetKeys } from './model-keys.ts'
import { parseRedisUrl } from './words.ts'

export interface Origin {
  readonly file: string
  /** Texts of PEM files by absolute path. */
  readonly pems: ReadonlyMap<string, string>
  /** By the plugin's key in the file: its name, or the path of an operator's own plugin. */
  readonly plugins: ReadonlyMap<string, PluginKeys>
}

export function resolveConfig(keys: GatewayKeys, origin: Origin): Config {
  const models = new Map(
    Object.entries(keys.models).map(([id, model]) => [id, resolveModel(id, model, origin)]),
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
    redis: resolveRedis(keys.redis, origin),
    store: resolveStore(keys),
    models,
    plans: resolvePlans(keys.plans, models),
    plugins: resolvePlugins(keys.plugins, origin),
    limits: resolveLimits(keys.limits),
    log: keys.log,
    drainMs: keys.drain,
  })
}

function resolveStore({ store, data }: GatewayKeys): StoreConfig {
  if (store !== 'disk' && store.s3) return { s3: resolveS3(store.s3) }
  const given = store === 'disk' ? undefined : store.disk
  const { path, reserve } = given ?? diskBlock.parse({ path: join(data, 'store') })
  return { disk: { path, reserveBytes: reserve } }
}

function resolveS3(keys: S3Keys): S3Config {
  const { bucket, prefix, region, endpoint, concurrency } = keys
  const { access_key_id: accessKeyId, secret_access_key: secretAccessKey } = keys
  return {
    bucket,
    prefix,
    region,
    concurrency,
    ...(endpoint !== undefined && { endpoint }),
    pathStyle: keys.path_style ?? endpoint !== undefined,
    ...(accessKeyId && secretAccessKey && { credentials: { accessKeyId, secretAccessKey } }),
    partBytes: keys.part_size,
  }
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
  const { url, tls, ...login } = typeof keys === 'string' ? { url: keys, tls: undefined } : keys
  const { secure, ...address } = parseRedisUrl(url) ?? { host: '', port: 0, db: 0, secure: false }
  const files = Object.entries(tls ?? {}).map(([name, file]) => [name, pem(pems, file)])
  return {
    kind: 'single',
    ...address,
    ...login,
    ...((secure || tls) && { tls: Object.fromEntries(files) }),
  }
}

function resolveModel(id: string, keys: ModelKeys, origin: Origin): Model {
  const { price, timeouts } = keys
  return {
    id,
    aliases: keys.aliases,
    targets: keys.targets.map((target, i) => resolveTarget(target, `${i + 1}`, { id, origin })),
    price: {
      input: price.input,
      output: price.output,
      cachedInput: price.cached_input,
      request: price.request,
    },
    contextWindow: keys.context_window,
    maxOutputTokens: keys.max_output_tokens,
    accepts: keys.accepts,
    endpoints: keys.endpoints,
    promptWindow: keys.context_window === defaultContextWindow ? Infinity : keys.context_window,
    bytesPerToken: keys.bytes_per_token,
    imageTokens: keys.image_tokens,
    onLeave: keys.on_leave ?? (keys.hidden_reasoning ? 'finish' : undefined),
    timeouts: {
      connectMs: timeouts.connect,
      firstTokenMs: timeouts.first_token,
      idleMs: timeouts.idle,
      totalMs: timeouts.total,
    },
    completeWhen: keys.complete_when,
    forwardHeaders: keys.forward_headers.map((name) => name.toLowerCase()),
    extraParameters: keys.extra_parameters,
    remoteMedia: keys.remote_media,
  }
}

function resolveTarget(
  keys: TargetKeys,
  name: string,
  { id, origin }: { readonly id: string; readonly origin: Origin },
): Target {
  const plain = {
    name,
    headers: {},
    priority: 1,
    weight: 1,
    includeUsage: true,
    continuousUsage: false,
    cacheSalt: false,
  }
  if (keys === 'demo') return { ...plain, url: 'demo', model: id }
  return {
    ...plain,
    url: keys.url ?? 'demo',
    model: keys.model ?? id,
    // `key: "${NAME:-}"` is empty when NAME is not set: then there is no key.
    ...(keys.key && { key: keys.key }),
    ...(keys.key && keys.key_header && { keyHeader: keys.key_header.toLowerCase() }),
    ...(keys.ca && { ca: pem(origin.pems, keys.ca) }),
    headers: lowerCased(keys.headers),
    priority: keys.priority,
    weight: keys.weight,
    ...(keys.max_tokens_field && { maxTokensField: keys.max_tokens_field }),
    includeUsage: keys.include_usage || keys.continuous_usage_stats,
    continuousUsage: keys.continuous_usage_stats,
    cacheSalt: keys.cache_salt,
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
  const resolvePlan = (plan: PlanKeys): Plan => ({
    requestsPerMinute: plan.requests_per_minute,
    tokensPerMinute: plan.tokens_per_minute,
    concurrency: plan.concurrency,
    models: plan.models.map(idOf),
    storageBytes: plan.storage,
    unpaidStorageBytes: plan.storage_unpaid,
  })
  return new Map(Object.entries(keys).map(([name, plan]) => [name, resolvePlan(plan)]))
}

function resolvePlugins(
  blocks: GatewayKeys['plugins'],
  { plugins }: Origin,
): ReadonlyMap<string, unknown> {
  const used = [...plugins].filter(([key]) => blocks[key] !== false)
  return new Map(used.map(([key, { name }]) => [name, deepFreeze(blocks[key])]))
}

function resolveLimits(keys: GatewayKeys['limits']): Config['limits'] {
  return {
    jsonApiBytes: keys.json_api,
    jsonMessageBytes: keys.json_message,
    jsonV1Bytes: keys.json_v1,
    sseLineBytes: keys.sse_line,
    answerBytes: keys.answer,
    bodiesBytes: keys.bodies,
    bodyBytesPerSecond: keys.body_rate,
    uploadsBytes: keys.uploads,
    unsentBytes: keys.unsent,
    readers: keys.readers,
    heartbeatMs: keys.heartbeat,
    readerStallMs: keys.reader_stall,
    jsonBodyMs: keys.json_body,
    headersMs: keys.headers,
    keepAliveMs: keys.keep_alive,
    uploadIdleMs: keys.upload_idle,
    uploadRateBytes: keys.upload_rate,
    firstByteMs: keys.first_byte,
    sessionFirstEventMs: keys.session_first_event,
    sessionBytes: keys.session,
    instructionsBytes: keys.instructions,
    attachments: keys.attachments,
  }
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
