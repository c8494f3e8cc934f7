// Builds all parts of the gateway once, in order, and closes them in reverse. The list of plugins is the feature list.

import { secretsOfTarget } from './backend/secrets.ts'
import type { Config, Model } from './config/config.ts'
import { ensureAdminToken, ensureDataFolder } from './data/folder.ts'
import { openListeners } from './listeners/listeners.ts'
import type { Listeners } from './listeners/listeners.ts'
import { openShelf } from './files/open.ts'
import { createAccounts } from './accounts/accounts.ts'
import { accountSettings } from './accounts/api-key.ts'
import { openLedger } from './ledger/open.ts'
import { lockDataFolder } from './data/lock.ts'
import type { Log } from './log.ts'
import { createMetrics } from './metrics.ts'
import type { Gateway, NamedRunning, Plugin } from './plugin.ts'
import { admin } from './plugins/admin/admin.ts'
import { auth } from './plugins/auth.ts'
import { billing } from './plugins/billing.ts'
import { chat } from './plugins/chat.ts'
import { cors } from './plugins/cors.ts'
import { files } from './plugins/files/files.ts'
import { idempotency } from './plugins/idempotency.ts'
import { limits } from './plugins/limits.ts'
import { metering } from './plugins/metering.ts'
import { models } from './plugins/models.ts'
import { ops } from './plugins/ops.ts'
import { sessions } from './plugins/sessions/sessions.ts'
import { startEmbeddedRedis } from './redis/embedded/embedded.ts'
import { connect } from './redis/redis.ts'
import type { RedisLink } from './redis/redis.ts'
import { isOutage } from './redis/scripts.ts'
import { SharedPool } from './sharing/shared-pool.ts'
import { openStore, storeSecrets } from './store/drivers.ts'

/** In the order in which their hooks run; `done` runs in reverse. */
export const plugins = [
  ops,
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
  admin,
] as readonly Plugin[]

export interface GatewayOptions {
  readonly effective: unknown
  readonly log: Log
  readonly version: string
  /** An operator's own plugins; the configuration has their blocks under their names. */
  readonly ownPlugins?: readonly Plugin[]
}

export interface RunningGateway extends Gateway {
  readonly listeners: Listeners
  /** Refuses new work, lets streams end for `drainMs`, settles everything, closes. */
  close(): Promise<void>
}

export async function startGateway(
  loaded: Config,
  options: GatewayOptions,
): Promise<RunningGateway> {
  const { log, version, effective } = options
  await using undo = new AsyncDisposableStack()
  const config = await prepareData(loaded, { log, undo })
  const redis = await openRedis(config, { log, undo })
  const metrics = createMetrics(version)
  const store = await openStore(config.store, { metrics })
  undo.defer(() => store.close())
  const { ledger } = kept(undo, await openLedger(config, { redis, store, metrics, log }))
  const accounts = createAccounts(redis.client, config)
  const state = { draining: false }
  const { unsentBytes, readers } = config.limits
  const pools = { unsent: new SharedPool(unsentBytes), readers: new SharedPool(readers) }
  const findModel = modelIndex(config)
  const shelved = await openShelf(config, { redis, store, metrics, log })
  const shelf = shelved && kept(undo, shelved).shelf
  const core = { config, effective, redis, ledger, accounts, store, shelf }
  const gateway = { ...core, metrics, log, state, pools, findModel }
  watch(gateway, undo)
  const running = await setUp(gateway, [...plugins, ...(options.ownPlugins ?? [])], undo)
  const listeners = await openListeners(gateway, running)
  undo.defer(() => listeners.close())
  const closing = undo.move()
  return { ...gateway, listeners, close: () => closing.disposeAsync() }
}

interface Opening {
  readonly log: Log
  readonly undo: AsyncDisposableStack
}

/** Closes it with the gateway. */
function kept<T extends { close(): Promise<void> }>(undo: AsyncDisposableStack, opened: T): T {
  undo.defer(() => opened.close())
  return opened
}

async function prepareData(config: Config, { log, undo }: Opening): Promise<Config> {
  await ensureDataFolder(config.data)
  const lock = await lockDataFolder(config.data)
  undo.defer(() => lock.release())
  const token = await ensureAdminToken(config.data, config.admin.token)
  log.hide(token)
  return { ...config, admin: { ...config.admin, token } }
}

async function openRedis(config: Config, { log, undo }: Opening): Promise<RedisLink> {
  let embeddedSocket: string | undefined
  if (config.redis.kind === 'embedded') {
    const child = await startEmbeddedRedis({ dataDir: config.data, log })
    undo.defer(() => child.stop())
    embeddedSocket = child.socket
  }
  const redis = await connect(config.redis, { embeddedSocket, log })
  undo.defer(() => redis.close())
  return redis
}

const archiveEveryMs = 3_600_000
const owedEveryMs = 60_000

/** Reads the gauges at intervals, and archives the journal every hour. */
function watch(gateway: Gateway, undo: AsyncDisposableStack): void {
  const { ledger, metrics, redis, log } = gateway
  const every = (ms: number, work: () => void) => {
    const timer = setInterval(work, ms).unref()
    undo.defer(() => clearInterval(timer))
  }
  const notDone = (what: string) => (err: unknown) => {
    if (redis.up && !isOutage(err, redis)) log.warn({ err }, what)
  }
  let dropped = 0
  every(1000, () => {
    metrics.logLinesDropped.inc(log.dropped - dropped)
    dropped = log.dropped
    metrics.holdsOpen.set(ledger.holdsOpen)
    metrics.spoolEntries.set(ledger.spool.size)
    metrics.spoolUnwritten.set(ledger.spool.unwritten)
    metrics.redisUp.set(redis.up ? 1 : 0)
  })
  const unread = notDone('the sum that accounts owe could not be read')
  const readOwed = () => {
    ledger.debtors.sum().then((sum) => metrics.owed.set(sum), unread)
  }
  readOwed()
  every(owedEveryMs, readOwed)
  every(archiveEveryMs, () => {
    ledger
      .archive()
      .catch(notDone('the journal could not be archived: the gateway tries again in an hour'))
    ledger.debtors.findAll().catch(unread)
  })
}

/** Each plugin that is not switched off, in order. */
async function setUp(gateway: Gateway, list: readonly Plugin[], undo: AsyncDisposableStack) {
  const running: NamedRunning[] = []
  for (const plugin of list) {
    if (!gateway.config.plugins.has(plugin.name)) continue
    const block = gateway.config.plugins.get(plugin.name)
    const one = await plugin.setup(gateway, block)
    undo.defer(() => one.close?.())
    running.push({ ...one, name: plugin.name })
  }
  return running
}

function modelIndex({ models }: Config): (name: string) => Model | undefined {
  const byName = new Map<string, Model>(models)
  for (const model of models.values()) {
    for (const alias of model.aliases) byName.set(alias, model)
  }
  return (name) => byName.get(name)
}

/** The texts that must never be logged. */
export function secretsOf(config: Config): string[] {
  const { models, admin, redis, store } = config
  const targets = [...models.values()].flatMap((model) => model.targets)
  const password = redis.kind === 'single' ? redis.password : undefined
  const { pepper } = accountSettings.of(config)
  const ours = [admin.token, pepper, password ?? '', ...storeSecrets(store)]
  return [...ours, ...targets.flatMap(secretsOfTarget)].filter((secret) => secret !== '')
}
