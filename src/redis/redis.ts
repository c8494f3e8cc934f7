// The names of all keys that the gateway writes to Redis, and the connections to Redis.
// An account's keys share the hash tag {<ref>}: one slot of a Cluster, so that one script can touch them all.
// A connection never sends a command twice and never queues one while Redis is away; the caller decides what to do.

import { isIP } from 'node:net'
import { Redis } from 'ioredis'
import type { RedisOptions } from 'ioredis'
import type { RedisConfig } from '../config/config.ts'
import type { Log } from '../log.ts'
import { RedisOutage, hopeless, textOf } from './outage.ts'
import { plain } from '../plain.ts'

/** `<ref>`: the 12 base62 characters of an account. `hour` and `day`: whole hours and days since 1970 (UTC). */
export const keys = {
  /** hash: id, name, status, plan, external_id, metadata, created_at, granted, spent, reserved, owed, minute, requests, tokens, `open:<key id>` (open holds of that key) */
  account: (ref: string) => `{${ref}}:account`,
  /** hash: id, name, hint, scopes, models, expires_at, revoked_at, created_at, last_used_at, rpm, tpm, concurrency, minute, requests, tokens */
  key: (ref: string, hmac: string) => `{${ref}}:key:${hmac}`,
  /** hash: key id → hmac */
  keyList: (ref: string) => `{${ref}}:keys`,
  /** zset: hold id → lease deadline (ms of Redis TIME); has the same holds as `holdRows` */
  holdLeases: (ref: string) => `{${ref}}:holds`,
  /** hash: hold id → amount, charge and usage so far, opaque meta */
  holdRows: (ref: string) => `{${ref}}:open`,
  /** hash: hold id → what was charged, settled or reaped; hour of the hold id; EXPIRE 25 h */
  settled: (ref: string, hour: number) => `{${ref}}:settled:${hour}`,
  /** string: one credit's answer by idempotency key; EXPIRE 25 h */
  credit: (ref: string, id: string) => `{${ref}}:credit:${id}`,
  /** stream: one entry for each change of the balance */
  journal: (ref: string) => `{${ref}}:journal`,
  /** hash: the sums of an hour, by model and key; EXPIRE 35 d */
  usageHour: (ref: string, hour: number) => `{${ref}}:usage:h${hour}`,
  /** hash: the same sums of a day; EXPIRE 400 d */
  usageDay: (ref: string, day: number) => `{${ref}}:usage:d${day}`,
  /** zset, all scores 0: session ids, so lexicographic order is creation order */
  sessions: (ref: string) => `{${ref}}:sessions`,
  /** hash: id, created_at, updated_at, title, model, instructions, metadata, messages (how many), bytes (of all rows), counted (what it counts in the account's storage), last (the greatest message id), active (the message that is generated) */
  session: (ref: string, session: string) => `{${ref}}:session:${session}`,
  /** zset, all scores 0: message ids of a session */
  messageIds: (ref: string, session: string) => `{${ref}}:session:${session}:ids`,
  /** hash: message id → the message as JSON */
  messages: (ref: string, session: string) => `{${ref}}:session:${session}:messages`,
  /** hash: hold (the id of its generation's hold), next (the next seq), bytes, counted (bytes that its session counts for it while it runs), touched (ms of the last append), cancelled, ended, lost (not ended by its owner), said and said_next (the text of the frames before seq said_next), `to:<seq>` (terminal events that readers of a lost stream got); EXPIRE when ended */
  stream: (ref: string, message: string) => `{${ref}}:stream:${message}`,
  /** stream: frames in batches, each under `<seq of its last frame + 1>-0` as `f`, the last with `e`; EXPIRE when ended */
  frames: (ref: string, message: string) => `{${ref}}:frames:${message}`,
  /** zset, all scores 0: file ids of the account */
  files: (ref: string) => `{${ref}}:files`,
  /** hash: id, bytes, created_at, expires_at, filename, purpose, session, content_type, sha256, row (what it counts beside its bytes); of an expired file only id, expires_at and session, EXPIRE 7 d */
  file: (ref: string, id: string) => `{${ref}}:file:${id}`,
  /** zset, all scores 0: file ids of a session */
  sessionFiles: (ref: string, session: string) => `{${ref}}:session:${session}:files`,
  /** hash: used (bytes of all files), rows (the sum of their `row`), reserved (what uploads may still need, rows included), `<file id>` (what that upload has reserved), sessions (what all sessions count), `<session id>` (what that one counts, where it may expire), frames, claims and told (what Redis removes by itself, as storage.lua has it), closed (the last minute of `dueAccounts` that covers nothing here) */
  storage: (ref: string) => `{${ref}}:storage`,
  /** zset: what the sweeper has to look at, and when (ms of Redis TIME): `upload <file id>` (its lease ends), `abandoned <file id> <tries>` (an upload that died), `expiry <file id>`, `object <file id> <tries>` (to be deleted from the store), `session <session id>` (its files go when it has gone) */
  due: (ref: string) => `{${ref}}:due`,
  /** string: the hash of a body, and `running` with a try's id or `kept` with ids of what the try created; EXPIRE 24 h, and 10 s while the first try runs */
  claim: (ref: string, name: string) => `{${ref}}:claim:${name}`,
  /** rate-limiter-flexible: requests a minute on routes without a hold */
  rate: (ref: string) => `{${ref}}:rate`,
  /** zset, all scores 0: `<account id>:<ref>`, so lexicographic order is creation order */
  accounts: 'accounts',
  /** zset, all scores 0: `<name>\0<account id>`; names that were given up stay, so readers compare */
  accountNames: 'account-names',
  /** hash: `name:<name>` and `external:<external id>` → the account's id, and, until the account has the name, when (ms) it began to take it; names that were given up stay, so readers compare */
  nameOwners: 'account-claims',
  /** hash: key id → ref */
  keyIds: 'key-ids',
  /** zset: `<minute since 1970>:<ref>` → that minute in ms: accounts whose `due` has something by then */
  dueAccounts: 'due-accounts',
  /** set: refs of accounts that may owe something; `owed` of the account has the sum */
  debtors: 'debtors',
  /** string: the body and the seed of an admin request with an Idempotency-Key, sealed; EXPIRE 24 h */
  adminClaim: (name: string) => `admin-claim:${name}`,
} as const

/** What each script of the ledger declares first. It derives the keys of an hour itself: only Redis knows the hour. */
export function accountKeys(ref: string): readonly string[] {
  return [keys.account(ref), keys.holdLeases(ref), keys.holdRows(ref), keys.journal(ref)]
}

export interface RedisLink {
  readonly client: Redis
  readonly up: boolean
  /** Why Redis answers but takes no writes, and the count of requests that the outage cost. */
  readonly outage: Pick<RedisOutage, 'refuses' | 'count'>
  /** Resolves when the commands that this turn of the event loop has sent so far are on the wire, which is at the turn's end. Never rejects. */
  written(): Promise<void>
  /** Listeners are called at every later (re)connect, in the order of registration, before any later event. They must not throw. */
  onReady(listener: () => void): void
  /** Listeners are called once for each connection that was up, when it is lost. */
  onLost(listener: () => void): void
  /** Waits for outstanding replies, if they come soon. */
  close(): Promise<void>
}

export interface ConnectOptions {
  /** Where the embedded server listens; required for `embedded`. */
  readonly embeddedSocket?: string
  readonly log?: Pick<Log, 'info' | 'warn'>
  /** A command without a reply after this time is rejected. It may have run, or may still run. */
  readonly commandTimeoutMs?: number
  /** How long `connect` waits for the first connection. */
  readonly waitMs?: number
}

/** Resolves when connected; from then on the client reconnects for ever. Rejects at once when trying again can't help. */
export async function connect(
  config: RedisConfig,
  options: ConnectOptions = {},
): Promise<RedisLink> {
  const outage = new RedisOutage({ log: options.log, probeKey: keys.accounts })
  const leaving = { isUnderWay: false }
  const client = new Redis(clientOptions(config, options, { outage, leaving }))
  client.on('ready', () => void (leaving.isUnderWay = false))
  client.on('error', forgetArguments)
  let written = () => gone
  // Without joinWrites, each command is on the wire as soon as it is sent.
  if (!plain.has('redis-writes')) client.on('ready', () => void (written = joinWrites(client)))
  outage.watch(client)
  try {
    await firstReady(client, options.waitMs ?? 10_000)
  } catch (error) {
    outage.close()
    client.disconnect()
    const where = 'path' in client.options ? client.options.path : undefined
    const address = where ?? `${client.options.host}:${client.options.port}`
    throw new Error(`Redis at ${address} can't be used: ${textOf(error)}`)
  }
  return linkTo(client, outage, () => written())
}

interface Told {
  readonly outage: RedisOutage
  /** `isUnderWay`: this connection is being closed, and another one will be opened. */
  readonly leaving: { isUnderWay: boolean }
}

function clientOptions(
  config: RedisConfig,
  { embeddedSocket, commandTimeoutMs = 2000 }: ConnectOptions,
  { outage, leaving }: Told,
): RedisOptions {
  return {
    ...address(config, embeddedSocket),
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
    retryStrategy: (attempt) => Math.min(50 * 2 ** Math.min(attempt - 1, 5), 1000),
    // Called for every error reply. On READONLY the master has become a replica, and only a new connection can reach
    // the new master.
    reconnectOnError(error) {
      forgetArguments(error)
      outage.answered(error.message)
      // True only once for a connection: ioredis would otherwise close it again for each outstanding reply.
      const isFirst = error.message.includes('READONLY') && !leaving.isUnderWay
      leaving.isUnderWay ||= isFirst
      if (isFirst) outage.leaves()
      return isFirst
    },
    // Auto-pipelining sends nothing while an earlier batch waits for its replies: 50 callers at 5 ms to Redis wait
    // 9.3 ms (p50) instead of 5.5, and at 0 ms a call costs 25 µs of CPU instead of 19. joinWrites has its advantage
    // without the wait.
    enableAutoPipelining: false,
  }
}

function address(config: RedisConfig, embeddedSocket: string | undefined): RedisOptions {
  if (config.kind === 'embedded') {
    if (!embeddedSocket) throw new Error('the embedded Redis has not been started')
    return { path: embeddedSocket }
  }
  const { host, port, path, username, password, db, tls } = config
  return {
    ...(path ? { path } : { host, port }),
    username,
    password,
    db,
    // The server name is sent for proxies that choose a server by it (SNI).
    ...(tls && { tls: { ...tls, ...(isIP(host) === 0 && { servername: host }) } }),
  }
}

const gone = Promise.resolve()

/**
 * Joins all commands of a turn of the event loop into one write: in bursts of 50, a call takes 5–7 µs instead of 8
 * (one writev instead of 50 writes). Returns a function whose promise resolves when the commands of this turn are
 * written.
 */
function joinWrites({ stream }: Redis): () => Promise<void> {
  const write = stream.write.bind(stream)
  let isCorked = false
  /** The promise of this turn, made at the first call and shared by all callers. */
  let turn: PromiseWithResolvers<void> | undefined
  const uncork = () => {
    isCorked = false
    stream.uncork()
    turn?.resolve()
    turn = undefined
  }
  const join = (...words: Parameters<typeof write>) => {
    if (!isCorked) {
      isCorked = true
      stream.cork()
      setImmediate(uncork)
    }
    return write(...words)
  }
  stream.write = join as typeof stream.write
  return () => (isCorked ? (turn ??= Promise.withResolvers<void>()).promise : gone)
}

/** ioredis puts the arguments of a failed command on its error: passwords, hashes of keys. They must not get into the log. */
function forgetArguments(error: Error): void {
  if ('command' in error) delete error.command
}

function firstReady(client: Redis, waitMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let last = new Error(`no answer within ${waitMs} ms`)
    const timer = setTimeout(() => settle(() => reject(last)), waitMs)
    const settle = (how: () => void) => {
      clearTimeout(timer)
      client.off('error', onError).off('ready', onReady).off('end', onEnd)
      how()
    }
    const onError = (error: Error) => {
      last = error
      // After a failed SELECT, ioredis would even go on with a working connection to the wrong database.
      if (hopeless.test(error.message)) onEnd()
    }
    const onReady = () => settle(resolve)
    const onEnd = () => settle(() => reject(last))
    client.on('error', onError).on('ready', onReady).on('end', onEnd)
    client.connect().catch(() => undefined) // the `error` event has the reason
  })
}

/** `written` is that of the current connection. */
function linkTo(client: Redis, outage: RedisOutage, written: RedisLink['written']): RedisLink {
  const lost = new Set<() => void>()
  let wasUp = true
  client.on('ready', () => void (wasUp = true))
  client.on('close', () => {
    if (!wasUp) return
    wasUp = false
    for (const listener of lost) listener()
  })
  return {
    client,
    outage,
    get up() {
      return wasUp && client.status === 'ready' // the status changes before onReady's listeners are called
    },
    written,
    onReady: (listener) => void client.on('ready', listener),
    onLost: (listener) => void lost.add(listener),
    async close() {
      outage.close()
      await end(client)
    },
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
