// The clients of Redis: of one server, of the primary that Sentinels name, of a Cluster. None sends a command again
// that may have run, and none queues one while its server is away.

import { isIP } from 'node:net'
import { Cluster, Command, Redis as Single } from 'ioredis'
import type { ClusterOptions, RedisOptions } from 'ioredis'
import type { RedisConfig, RedisLogin } from '../config/config.ts'
import type { RedisOutage } from './outage.ts'
import { replaceEvalsha } from './script-commands.ts'
import { hostPort } from './server-kind.ts'

/** Whatever serves the commands. */
export type Redis = Single | Cluster

export interface ClientOptions {
  /** Where the embedded server listens; required for `embedded`. */
  readonly embeddedSocket?: string | undefined
  /** A command without a reply after this time is rejected. It may have run, or may still run. */
  readonly commandTimeoutMs?: number | undefined
  readonly outage: RedisOutage
}

export function isCluster(client: Redis): client is Cluster {
  return client instanceof Cluster
}

// ioredis listens for one error of a connection. One that is closed while TLS shakes hands can have two: the server's
// certificate is refused, and its alert was in the same packet. Unheard, the second would end the process.
const { disconnect } = Single.prototype
Single.prototype.disconnect = function (this: Single, reconnect) {
  // Undefined before the first connection.
  const stream: Single['stream'] | undefined = this.stream
  stream?.on('error', () => undefined)
  disconnect.call(this, reconnect)
}

replaceEvalsha(Command, [Single, Cluster])

/** Connects when it is told to. */
export function createClient(config: RedisConfig, options: ClientOptions): Redis {
  if (config.kind !== 'cluster') return single(config, options)
  const nodes = { ...common(options), ...loginOf(config), reconnectOnError: reports(options) }
  return new Cluster([...config.nodes], clusterOptions(nodes))
}

function single(config: Exclude<RedisConfig, { kind: 'cluster' }>, options: ClientOptions): Single {
  const client = new Single({
    ...common(options),
    ...(config.kind === 'sentinel' ? sentinels(config) : address(config, options.embeddedSocket)),
    retryStrategy,
    reconnectOnError: leaves(options),
  })
  client.on('error', forgetArguments)
  return client
}

/** Where the client looks for Redis, for messages. */
export function placeOf(config: RedisConfig, embeddedSocket?: string): string {
  if (config.kind === 'embedded') return String(embeddedSocket)
  if (config.kind === 'single') return config.path ?? hostPort(config)
  if (config.kind === 'cluster') return config.nodes.map(hostPort).join(', ')
  return `${config.name}, by the Sentinels ${config.sentinels.map(hostPort).join(', ')},`
}

const retryStrategy = (attempt: number) => Math.min(50 * 2 ** Math.min(attempt - 1, 5), 1000)

function common({ commandTimeoutMs = 2000 }: ClientOptions): RedisOptions {
  return {
    lazyConnect: true,
    connectionName: 'tollgate',
    disableClientInfo: true,
    protocol: 2,
    // With ioredis' defaults, a debit would run twice if its reply was lost.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    commandTimeout: commandTimeoutMs,
    socketTimeout: 2 * commandTimeoutMs,
    connectTimeout: 1000,
    disconnectTimeout: 500,
    maxLoadingRetryTime: 250,
    // Auto-pipelining sends nothing while an earlier batch waits for its replies: 50 callers at 5 ms to Redis wait
    // 9.3 ms (p50) instead of 5.5, and at 0 ms a call costs 25 µs of CPU instead of 19. join-writes.ts has its advantage
    // without the wait.
    enableAutoPipelining: false,
  }
}

/**
 * A connection is left at most so often: ioredis would close it again for each outstanding reply, and while there is no new
 * master, a new connection reaches the replica again. Less than the second between two probes of the outage, so that a
 * probe may leave, where nobody else asks.
 */
const leavesEveryMs = 900

/** Called for every error reply. On READONLY the master has become a replica, and only a new connection can reach the new master. */
function leaves({ outage }: ClientOptions) {
  let leftAtMs = -Infinity
  return (error: Error): boolean => {
    forgetArguments(error)
    outage.answered(error.message)
    const isDue = performance.now() - leftAtMs >= leavesEveryMs
    if (!isDue || !error.message.includes('READONLY')) return false
    leftAtMs = performance.now()
    outage.leaves()
    return true
  }
}

/** A node of a Cluster is never left: it says where its slots are. */
function reports({ outage }: ClientOptions) {
  return (error: Error): boolean => {
    forgetArguments(error)
    outage.answered(error.message)
    return false
  }
}

function address(
  config: Extract<RedisConfig, { kind: 'embedded' | 'single' }>,
  embeddedSocket: string | undefined,
): RedisOptions {
  if (config.kind === 'embedded') {
    if (!embeddedSocket) throw new Error('the embedded Redis has not been started')
    return { path: embeddedSocket }
  }
  const { host, port, path, db, tls } = config
  return {
    ...loginOf(config),
    ...(path ? { path } : { host, port }),
    db,
    // The server name is sent for proxies that choose a server by it (SNI).
    ...(tls && { tls: { ...tls, ...(isIP(host) === 0 && { servername: host }) } }),
  }
}

function loginOf({ username, password, tls }: RedisLogin): RedisOptions {
  return { username, password, ...(tls && { tls }) }
}

function sentinels(config: Extract<RedisConfig, { kind: 'sentinel' }>): RedisOptions {
  const { name, db, tls, sentinelUsername, sentinelPassword } = config
  return {
    ...loginOf(config),
    sentinels: [...config.sentinels],
    name,
    db,
    ...(sentinelUsername !== undefined && { sentinelUsername }),
    ...(sentinelPassword !== undefined && { sentinelPassword }),
    ...(tls && { enableTLSForSentinelMode: true, sentinelTLS: tls }),
    sentinelCommandTimeout: 1000,
    // A constant pause, so that the error's text stays the same and the log has it once.
    sentinelRetryStrategy: () => 250,
    // The Sentinels tell when another server has become the primary: one that hangs keeps its connections open.
    failoverDetector: true,
  }
}

function clusterOptions(nodes: RedisOptions): ClusterOptions {
  return {
    redisOptions: nodes,
    lazyConnect: true,
    enableOfflineQueue: false,
    // It would send CLUSTER INFO through nodes that are just connecting. connect() waits for all primaries instead.
    enableReadyCheck: false,
    // A command goes out again after MOVED, ASK and TRYAGAIN, which have changed nothing. It does not when its
    // connection is lost, because it may have run, nor while its slot has no node, because the caller would wait in
    // vain.
    maxRedirections: 16,
    retryDelayOnTryAgain: 50,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    clusterRetryStrategy: retryStrategy,
    clusterNodeRetryStrategy: retryStrategy,
    // cluster.ts asks for the slots.
    slotsRefreshInterval: 0,
    slotsRefreshTimeout: 500,
    // Names are not resolved here, because certificates are checked by name.
    dnsLookup: (name, done) => done(null, name),
  }
}

/** ioredis puts the arguments of a failed command on its error: passwords, hashes of keys. They must not get into the log. */
function forgetArguments(error: Error): void {
  if ('command' in error) delete error.command
}
