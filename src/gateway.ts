// Builds all parts of the gateway once, in order, and closes them in reverse. The list of plugins is the feature list.

import { HealthChecks } from './backend/health-check.ts'
import { Targets } from './backend/targets.ts'
import type { Config, Model } from './config/config.ts'
import type { Shown } from './config/diff.ts'
import { ensureAdminToken, ensureDataFolder } from './data/folder.ts'
import { GatewayError } from './errors.ts'
import type { Listeners, Ports } from './listeners/listeners.ts'
import { openShelf } from './files/open.ts'
import { createAccounts } from './accounts/accounts.ts'
import { openLedger } from './ledger/open.ts'
import { lockDataFolder } from './data/lock.ts'
import type { Log } from './log.ts'
import { createMetrics } from './metrics.ts'
import type { Metrics } from './metrics.ts'
import type { Gateway, Plugin, Pools, Workers } from './plugin.ts'
import { account } from './plugins/account/account.ts'
import { admin } from './plugins/admin/admin.ts'
import { auth } from './plugins/auth.ts'
import { billing } from './plugins/billing.ts'
import { chat } from './plugins/chat.ts'
import { cors } from './plugins/cors.ts'
import { docs } from './plugins/docs/docs.ts'
import { files } from './plugins/files/files.ts'
import { idempotency } from './plugins/idempotency.ts'
import { limits } from './plugins/limits.ts'
import { metering } from './plugins/metering.ts'
import { models } from './plugins/models.ts'
import { ops } from './plugins/ops.ts'
import { sessions } from './plugins/sessions/sessions.ts'
import { traces } from './plugins/traces.ts'
import { Editions } from './reload.ts'
import type { Load, PreparedReload, WorkersReload } from './reload.ts'
import { startEmbeddedRedis } from './redis/embedded/embedded.ts'
import { isCluster } from './redis/client.ts'
import { connect } from './redis/connect.ts'
import type { RedisLink } from './redis/connect.ts'
import { warnOfSettings } from './redis/settings.ts'
import { secretsOf } from './secrets.ts'
import { SharedPool } from './sharing/shared-pool.ts'
import { keepBooks, restSessions, watchGauges } from './upkeep.ts'
import { openStore, uploadMemoryBytes } from './store/drivers.ts'

/** In the order in which their hooks run; `done` runs in reverse. */
export const plugins = [
  ops,
  traces,
  cors,
  auth,
  limits,
  idempotency,
  metering,
  sessions,
  files,
  chat,
  models,
  billing,
  account,
  docs,
  admin,
] as readonly Plugin[]

export interface GatewayOptions {
  readonly effective: Shown['effective']
  readonly marks?: Shown['marks']
  readonly log: Log
  readonly version: string
  /** An operator's own plugins; the configuration has their blocks under their names. */
  readonly ownPlugins?: readonly Plugin[]
  /** Reads the configuration again; without it the gateway cannot reload. */
  readonly load?: Load
  /** The part of this process in a gateway of several processes; by default it does everything. */
  readonly role?: ProcessRole
}

/** A supervisor serves the admin port, and has what exists only once, such as the data folder; a worker serves clients. */
export type ProcessRole =
  | { readonly is: 'supervisor'; readonly workers: Workers & WorkersReload }
  | {
      readonly is: 'worker'
      readonly port: number | undefined
      readonly redisSocket: string | undefined
    }

/** A Gateway as it was when it started; `current` is the one that new requests find. */
export interface RunningGateway extends Gateway {
  readonly current: Gateway
  readonly listeners: Listeners
  /** For the workers of a supervisor; undefined where Redis is not embedded. */
  readonly redisSocket: string | undefined
  /** For a worker: prepares a reload, which the worker then commits or drops. */
  prepareReload(): Promise<PreparedReload>
  /** Serves on for `shutdown_delay`. Then refuses new work, lets streams end for `drain`, or until `hurry` fires, settles everything, closes. */
  close(hurry?: AbortSignal): Promise<void>
}

export async function startGateway(
  loaded: Config,
  options: GatewayOptions,
): Promise<RunningGateway> {
  const { log, effective, marks = {}, ownPlugins = [], load, role } = options
  await using undo = new AsyncDisposableStack()
  const config = await prepareData(loaded, { log, undo, role })
  // Requests may come before `Editions.open` has returned.
  const taken: { editions?: Editions } = {}
  const configNow = () => taken.editions?.current.config ?? config
  const core = await openParts(config, { ...options, undo, configNow, role })
  const workers = role?.is === 'supervisor' ? role.workers : undefined
  const ends = undo.use(new AsyncDisposableStack())
  const build = (next: Config, shown: Shown): Gateway => ({
    ...core,
    ...shown,
    config: next,
    accounts: createAccounts(core.redis.client, next),
    findModel: modelIndex(next),
    ...(workers && { workers }),
    atEnd: (close) => ends.defer(close),
    reload: async (cause) => {
      if (!taken.editions) throw new GatewayError('overloaded')
      return taken.editions.reload(cause)
    },
  })
  const editions = await Editions.open(build(config, { effective, marks }), ownPlugins, {
    build,
    load,
    secretsOf,
    builtIn: plugins,
    complete: (next) => withToken(next, log),
    onTaken: ({ pools, targets, config: next }) => {
      fitPools(pools, next)
      targets.keep(next.models)
      core.checks?.follow(next.models)
    },
    workers,
    ports: portsOf(role),
  })
  taken.editions = editions
  const ending: { hurry?: AbortSignal | undefined } = {}
  undo.defer(() => editions.close(ending.hurry))
  const closing = undo.move()
  return {
    ...editions.current,
    get current() {
      return editions.current
    },
    listeners: editions.listeners,
    redisSocket: config.redis.kind === 'embedded' ? pathOf(core.redis) : undefined,
    prepareReload: () => editions.prepare(),
    close(hurry) {
      ending.hurry = hurry
      return closing.disposeAsync()
    },
  }
}

function pathOf({ client }: RedisLink): string | undefined {
  return isCluster(client) ? undefined : client.options.path
}

function portsOf(role: ProcessRole | undefined): Ports {
  if (role?.is === 'supervisor') return { only: 'admin' }
  return role ? { only: 'public', port: role.port } : {}
}

interface Opening {
  readonly log: Log
  readonly role: ProcessRole | undefined
  readonly undo: AsyncDisposableStack
}

interface Parts extends Opening {
  readonly version: string
  readonly configNow: () => Config
}

/** What lives as long as the process, whatever its configuration. */
async function openParts(config: Config, { log, undo, version, configNow, role }: Parts) {
  const redis = await openRedis(config, { log, undo, role })
  const own = createMetrics(version)
  const metrics: Metrics =
    role?.is === 'supervisor'
      ? { ...own, text: (format) => role.workers.metrics(own, format) }
      : own
  metrics.configReloadOk.set(1)
  const store = await openStore(config.store, { metrics })
  undo.defer(() => store.close())
  const plans = () => configNow().plans
  const { ledger } = kept(undo, await openLedger(config, { redis, store, metrics, log, plans }))
  const shelved = await openShelf(config, { redis, store, metrics, log })
  const shelf = shelved && kept(undo, shelved).shelf
  const empty = () => new SharedPool(0)
  const pools = {
    unsent: empty(),
    unsentToStrangers: empty(),
    readers: empty(),
    uploads: empty(),
    bodies: empty(),
  }
  fitPools(pools, config)
  const state = { draining: false }
  const targets = new Targets()
  const checks = role?.is === 'supervisor' ? undefined : checksOf(targets, { config, log, undo })
  const parts = { redis, ledger, store, shelf, metrics, log, pools, targets, checks, state }
  watchGauges(parts, undo)
  if (role?.is !== 'worker') {
    keepBooks({ ...parts, configNow }, undo)
    restSessions({ ...parts, configNow }, undo)
  }
  return parts
}

/** Ended with the gateway. A supervisor asks no target, so it checks none. */
function checksOf(
  targets: Targets,
  { config, log, undo }: Pick<Opening, 'log' | 'undo'> & { readonly config: Config },
): HealthChecks {
  const checks = new HealthChecks(targets, { log })
  undo.defer(() => checks.close())
  checks.follow(config.models)
  return checks
}

const strangersPart = 4
/** One network of strangers can take half of their pool, which must hold the largest file that anybody may read (/docs: 1.7 MB). */
const leastForStrangers = 8 * 2 ** 20

/** Each worker has its part of what the file gives to all. Strangers have a pool of their own: a quarter as much, but at least 8 MiB in each process. */
function fitPools(
  { unsent, unsentToStrangers, readers, uploads, bodies }: Pools,
  { limits, store, workers }: Config,
): void {
  unsent.resize(limits.unsentBytes / workers)
  const ofStrangers = limits.unsentBytes / workers / strangersPart
  unsentToStrangers.resize(Math.max(leastForStrangers, ofStrangers))
  readers.resize(limits.readers / workers)
  bodies.resize(limits.bodiesBytes / workers)
  // At least two, because fewer cannot be shared.
  uploads.resize(Math.max(2, Math.floor(limits.uploadsBytes / workers / uploadMemoryBytes(store))))
}

/** Closes it with the gateway. */
function kept<T extends { close(): Promise<void> }>(undo: AsyncDisposableStack, opened: T): T {
  undo.defer(() => opened.close())
  return opened
}

async function prepareData(config: Config, { log, undo, role }: Opening): Promise<Config> {
  if (role?.is === 'worker') return withToken(config, log)
  await ensureDataFolder(config.data)
  const lock = await lockDataFolder(config.data)
  undo.defer(() => lock.release())
  return withToken(config, log)
}

async function withToken(config: Config, log: Log): Promise<Config> {
  const token = await ensureAdminToken(config.data, config.admin.token)
  log.hide(token)
  return { ...config, admin: { ...config.admin, token } }
}

async function openRedis(config: Config, { log, undo, role }: Opening): Promise<RedisLink> {
  let embeddedSocket = role?.is === 'worker' ? role.redisSocket : undefined
  if (config.redis.kind === 'embedded' && role?.is !== 'worker') {
    const child = await startEmbeddedRedis({ dataDir: config.data, log })
    undo.defer(() => child.stop())
    embeddedSocket = child.socket
  }
  const redis = await connect(config.redis, { embeddedSocket, log })
  undo.defer(() => redis.close())
  // Asked once, not by each worker. The gateway starts even if Redis does not answer.
  if (role?.is !== 'worker') await warnOfSettings(redis.client, log).catch(() => undefined)
  return redis
}

function modelIndex({ models }: Config): (name: string) => Model | undefined {
  const byName = new Map<string, Model>(models)
  for (const model of models.values()) {
    for (const alias of model.aliases) byName.set(alias, model)
  }
  return (name) => byName.get(name)
}
