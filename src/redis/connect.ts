// The connections to Redis: one server, what Sentinels announce, or all primaries of a Cluster. A connection never
// sends a command again that may have run, and never queues one while Redis is away; the caller decides what to do.

import type { EventEmitter } from 'node:events'
import type { RedisConfig } from '../config/config.ts'
import { messageOf } from '../errors.ts'
import type { Log } from '../log.ts'
import { RedisOutage, hopeless } from './outage.ts'
import { createClient, isCluster, placeOf } from './client.ts'
import type { Redis } from './client.ts'
import { watchNodes } from './cluster.ts'
import type { ClusterNodes } from './cluster.ts'
import { createWrites } from './join-writes.ts'
import { parseInfo, whyNoGroup, whyNoSingle } from './server-kind.ts'
import { keys } from './keys.ts'

export interface RedisLink {
  readonly client: Redis
  /** Of a Cluster: at least one primary is there. */
  readonly up: boolean
  /** Every account can be reached: Redis is up, and of a Cluster every primary. */
  readonly isWhole: boolean
  /** Why Redis answers but takes no writes, and the count of requests that the outage cost. */
  readonly outage: Pick<RedisOutage, 'refuses' | 'refusesAll' | 'count'>
  /** Resolves when the commands that this turn of the event loop has sent so far are on the wire, which is at the turn's end. Never rejects. */
  written(): Promise<void>
  /** Listeners are called at every later (re)connect, in the order of registration, before any later event. They must not throw. Of a Cluster: also when one primary connects, and when a replica has become one. */
  onReady(listener: () => void): void
  /** Listeners are called once for each connection that was up, when it is lost; of a Cluster, when no primary is left. */
  onLost(listener: () => void): void
  /** Waits for outstanding replies, if they come soon. */
  close(): Promise<void>
}

export interface ConnectOptions {
  /** Where the embedded server listens; required for `embedded`. */
  readonly embeddedSocket?: string | undefined
  readonly log?: Pick<Log, 'info' | 'warn'>
  /** A command without a reply after this time is rejected. It may have run, or may still run. */
  readonly commandTimeoutMs?: number
  /** How long `connect` waits for the first connection. */
  readonly waitMs?: number
}

/** Resolves when connected, to every primary of a Cluster; from then on the client reconnects for ever. Rejects at once when trying again can't help: also when a server of another kind answers than the one that is configured. */
export async function connect(
  config: RedisConfig,
  options: ConnectOptions = {},
): Promise<RedisLink> {
  const outage = new RedisOutage({ log: options.log, probeKeys: probeKeysFor(config) })
  const client = createClient(config, { ...options, outage })
  const nodes = isCluster(client) ? watchNodes(client) : undefined
  const writes = createWrites()
  const events: EventEmitter = nodes?.events ?? client
  nodes?.events.on('connection', (node) => writes.join(node))
  if (!isCluster(client)) client.on('ready', () => writes.join(client))
  outage.watch(client, events)
  const letGo = holdOn(client)
  const stop = () => {
    outage.close()
    nodes?.close()
    letGo()
  }
  try {
    await firstReady(client, events, { config, waitMs: options.waitMs ?? 10_000 })
  } catch (error) {
    stop()
    client.disconnect()
    throw new Error(
      `Redis at ${placeOf(config, options.embeddedSocket)} can't be used: ${messageOf(error)}`,
    )
  }
  const shared = {
    client,
    outage,
    written: () => writes.written(),
    async close() {
      stop()
      await end(client)
    },
  }
  return nodes ? linkToNodes(nodes, shared) : linkTo(shared)
}

/**
 * Keys in some 64 slots of a Cluster. With eight primaries, a given one has none of these slots with a chance of 1 in
 * 5,000.
 */
function probeKeysFor({ kind }: RedisConfig): readonly string[] {
  if (kind !== 'cluster') return [keys.accounts]
  return Array.from({ length: 64 }, (_, i) => keys.account(`probe${i}`))
}

interface FirstReady {
  readonly config: RedisConfig
  readonly waitMs: number
}

function firstReady(
  client: Redis,
  events: EventEmitter,
  { config, waitMs }: FirstReady,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let last = new Error(`no answer within ${waitMs} ms`)
    const timer = setTimeout(() => settle(() => reject(last)), waitMs)
    const settle = (how: () => void) => {
      clearTimeout(timer)
      events.off('error', onError).off('ready', onReady)
      how()
    }
    const onError = (error: Error, address?: string) => {
      if (error.message === stopped) return
      const why = whyNoGroup(config, error.message, address)
      last = why === undefined ? error : new Error(why)
      // After a failed SELECT, ioredis would even go on with a working connection to the wrong database.
      if (why !== undefined || hopeless.test(error.message)) settle(() => reject(last))
    }
    const onReady = () => {
      examine(client, config).then(
        (why) => settle(() => (why === undefined ? resolve() : reject(new Error(why)))),
        (error: Error) => {
          last = error
          // Else the connection was lost before it answered: another one follows.
          if (error.name === 'ReplyError') settle(() => reject(error))
        },
      )
    }
    events.on('error', onError).on('ready', onReady)
    client.connect().catch((error: Error) => {
      // Not even a socket could be made, for instance because the text of a TLS key is no key.
      if (client.status === 'end' && error.message !== stopped) settle(() => reject(error))
    })
  })
}

/** Resolves with why this is not the server that is configured. */
async function examine(client: Redis, config: RedisConfig): Promise<string | undefined> {
  return config.kind === 'single' ? whyNoSingle(config, parseInfo(await client.info())) : undefined
}

const againMs = 250
/** What ioredis says of a connection that it has stopped itself. */
const stopped = 'Connection is closed.'

/** ioredis ends a client for good when the Sentinels announce a fail-over while it connects. Then this connects it again, until the returned function is called. */
function holdOn(client: Redis): () => void {
  let isHeld = true
  let isConnecting = false
  client.on('connecting', () => void (isConnecting = true))
  for (const event of ['connect', 'close']) client.on(event, () => void (isConnecting = false))
  client.on('end', () => {
    // A client that was disconnected on purpose has been closed before its end.
    if (!isConnecting) return
    const again = () => {
      if (isHeld) client.connect().catch(() => undefined) // the `error` event has the reason
    }
    setTimeout(again, againMs).unref()
  })
  return () => void (isHeld = false)
}

type Shared = Pick<RedisLink, 'client' | 'outage' | 'written' | 'close'>

function linkTo(shared: Shared): RedisLink {
  const { client } = shared
  const lost = new Set<() => void>()
  let wasUp = true
  client.on('ready', () => void (wasUp = true))
  client.on('close', () => {
    if (!wasUp) return
    wasUp = false
    for (const listener of lost) listener()
  })
  const isUp = () => wasUp && client.status === 'ready' // the status changes before onReady's listeners are called
  return {
    ...shared,
    get up() {
      return isUp()
    },
    get isWhole() {
      return isUp()
    },
    onReady: (listener) => void client.on('ready', listener),
    onLost: (listener) => void lost.add(listener),
  }
}

function linkToNodes(nodes: ClusterNodes, shared: Shared): RedisLink {
  return {
    ...shared,
    get up() {
      return nodes.isUp
    },
    get isWhole() {
      return nodes.isWhole
    },
    onReady: (listener) => void nodes.events.on('came', listener),
    onLost: (listener) => void nodes.events.on('gone', listener),
  }
}

async function end(client: Redis): Promise<void> {
  if (client.status === 'end') return
  const ended = new Promise<void>((resolve) => {
    client.once('end', resolve)
    // Between two connection attempts `end` never comes, and a server that hangs does not close its side.
    setTimeout(resolve, 1000).unref()
    if (client.status === 'reconnecting') resolve()
  })
  if (client.status === 'ready') await client.quit().catch(() => undefined) // the connection is lost already
  client.disconnect()
  await ended
}
