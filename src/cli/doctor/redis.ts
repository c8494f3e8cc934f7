// The part of `tollgate doctor` about Redis: can the gateway use it, does it persist its data, what does its clock say.
// It changes nothing. `connect` refuses a server of another kind than the configured one. Of a Cluster, every node is examined.
// With `embedded`, it examines the Redis of the gateway that runs on this data folder, if one runs.

import { claimPepper } from '../../accounts/pepper.ts'
import type { Config } from '../../config/config.ts'
import { listens } from '../../redis/embedded/child.ts'
import { recordedSocket } from '../../redis/embedded/embedded.ts'
import { isCluster } from '../../redis/client.ts'
import type { Redis } from '../../redis/client.ts'
import { connect } from '../../redis/connect.ts'
import type { RedisLink } from '../../redis/connect.ts'
import { keys } from '../../redis/keys.ts'
import { parseInfo } from '../../redis/server-kind.ts'
import type { Info } from '../../redis/server-kind.ts'
import { evictionFault, persistenceFault } from '../../redis/settings.ts'
import type { SettingFault } from '../../redis/settings.ts'
import { fail, ok, reasonOf, warn } from './examination.ts'
import type { Examination, CheckOutcome } from './examination.ts'
import { tryWrites } from './redis-writes.ts'

/** A Redis that runs answers at once. */
const longestWaitMs = 3000

type Nodes = ReturnType<typeof nodesOf>
type Client = Nodes[number]

function nodesOf({ client }: RedisLink) {
  return isCluster(client) ? client.nodes() : [client]
}

/** A server that answers. */
interface Server {
  readonly client: Client
  readonly info: Info
}

export async function examineRedis(
  { redis, data, pepper = '' }: Pick<Config, 'redis' | 'data'> & { readonly pepper?: string },
  examination: Examination,
): Promise<void> {
  const embeddedSocket = redis.kind === 'embedded' ? await liveSocket(data) : undefined
  if (redis.kind === 'embedded' && embeddedSocket === undefined) {
    await examination.check('redis', async () => ok('embedded: the gateway starts and stops it'))
    return
  }
  const { limitMs } = examination
  const opening = connect(redis, {
    commandTimeoutMs: limitMs,
    waitMs: Math.min(longestWaitMs, 0.8 * limitMs), // shorter than the check, so that the finding has connect's reason
    ...(embeddedSocket !== undefined && { embeddedSocket }),
  })
  try {
    await examineServer(opening, examination)
    await opening.then(
      ({ client }) => examination.check('redis pepper', () => judgePepper(client, pepper)),
      () => undefined, // the first check has told why
    )
  } finally {
    const closing = opening.then((link) => link.close())
    await closing.catch(() => undefined) // connect failed, and the check has told why
  }
}

async function liveSocket(data: string): Promise<string | undefined> {
  const socket = await recordedSocket(data)
  return socket !== undefined && (await listens(socket)) ? socket : undefined
}

async function examineServer(opening: Promise<RedisLink>, examination: Examination): Promise<void> {
  const found: Server[] = []
  let isOfCluster = false
  await examination.check('redis', async () => {
    const link = await opening.catch((error: unknown) => ({ reason: reasonOf(error) }))
    if ('reason' in link) return { ...fail(link.reason), unreachable: true }
    isOfCluster = isCluster(link.client)
    const begun = performance.now()
    const asked = await Promise.allSettled(nodesOf(link).map(askServer))
    // A replica may be away: then its primary has none, which `judgeCluster` says.
    found.push(...asked.flatMap((one) => (one.status === 'fulfilled' ? one.value : [])))
    if (found.length === 0) return fail('no server answers')
    return ok(`it answers, in ${(performance.now() - begun).toFixed(1)} ms`)
  })
  if (found.length === 0) return
  const check = (name: string, judge: (server: Server) => CheckOutcome | Promise<CheckOutcome>) =>
    examination.check(`redis ${name}`, async () => worstOf(found, judge))
  await check('version', ({ info }) => judgeVersion(info))
  if (isOfCluster) {
    await examination.check('redis cluster', async () =>
      judgeCluster(found.map(({ info }) => info)),
    )
  }
  await check('eviction', ({ info }) => judgeEviction(info))
  await check('persistence', async ({ client, info }) =>
    judgePersistence(info, await readSetting(client, 'appendfsync')),
  )
  await check('clock', async ({ client }) => judgeClock(await readClock(client)))
  await check('memory', async ({ client }) =>
    judgeNodes(await readSetting(client, 'stream-node-max-bytes')),
  )
  await check('rights', ({ client }) => tryRights(client))
  await check('writes', ({ client, info }) => tryWrites(client, info))
}

async function askServer(client: Client): Promise<Server> {
  return { client, info: parseInfo(await client.info()) }
}

const worstFirst = ['fail', 'warn', 'ok'] as const

/** The worst finding, with the server's address if there are several and it is not ok. */
async function worstOf(
  servers: readonly Server[],
  judge: (server: Server) => CheckOutcome | Promise<CheckOutcome>,
): Promise<CheckOutcome> {
  const outcomes = await Promise.all(
    servers.map(async (server) => {
      const outcome = await judge(server)
      const { host, port } = server.client.options
      const isNamed = servers.length > 1 && outcome.verdict !== 'ok'
      return isNamed ? { ...outcome, detail: `${host}:${port}: ${outcome.detail}` } : outcome
    }),
  )
  const worst = worstFirst.flatMap((verdict) => outcomes.filter((one) => one.verdict === verdict))
  return worst[0] ?? fail('no server answers')
}

/** `connect` has seen to it that each slot has a primary that answers. */
export function judgeCluster(nodes: readonly Info[]): CheckOutcome {
  const primaries = nodes.filter((info) => info.get('role') === 'master')
  const replicas = nodes.length - primaries.length
  const detail = `${primaries.length} primaries, ${replicas} replicas`
  const alone = primaries.filter((info) => Number(info.get('connected_slaves') ?? 0) === 0).length
  if (alone === 0) return ok(detail)
  return warn(`${detail}; ${alone} without a replica: if it dies, its accounts wait for its return`)
}

const leastVersion = 7

export function judgeVersion(info: Info): CheckOutcome {
  const version = info.get('redis_version') ?? 'unknown'
  const valkey = info.get('valkey_version')
  const name = valkey === undefined ? version : `Valkey ${valkey}, as Redis ${version}`
  if (Number.parseInt(version) >= leastVersion) return ok(name)
  return fail(`${name}; the gateway needs ${leastVersion} or later`)
}

export function judgeEviction(info: Info): CheckOutcome {
  const fault = evictionFault(info)
  return fault ? verdictOn(fault) : ok('noeviction')
}

/** `fsync` is undefined when the server does not tell. */
export function judgePersistence(info: Info, fsync: string | undefined): CheckOutcome {
  const fault = persistenceFault(info)
  if (fault) return verdictOn(fault)
  const status = info.get('aof_last_write_status') ?? 'ok'
  if (status !== 'ok') return fail(`the append-only file cannot be written (${status})`)
  if (fsync === 'no') {
    return warn('append-only file with appendfsync no: set it to everysec, or a crash loses more')
  }
  return ok(`append-only file${fsync === undefined ? '' : `, appendfsync ${fsync}`}`)
}

function verdictOn({ detail, isCertain }: SettingFault): CheckOutcome {
  return isCertain ? fail(detail) : warn(detail)
}

async function judgePepper(client: Redis, pepper: string): Promise<CheckOutcome> {
  const isNoted = await claimPepper(client, pepper, { isLook: true })
  return ok(isNoted ? 'keys are made under this one' : 'Redis does not know yet which one is right')
}

const mostNodeBytes = 1024

/** Redis reserves this many bytes, 4 KiB at most, when it makes the first entry of an account's journal. */
export function judgeNodes(bytes: string | undefined): CheckOutcome {
  if (bytes === undefined) return ok('the server does not tell its settings')
  const name = `stream-node-max-bytes ${bytes}`
  const isSmall = Number(bytes) > 0 && Number(bytes) <= mostNodeBytes
  if (isSmall) return ok(name)
  return warn(`${name}: an account that rests takes up to 3 KB more than with ${mostNodeBytes}`)
}

/** Returns undefined when the server refuses CONFIG, as hosted servers do. */
async function readSetting(client: Client, name: string): Promise<string | undefined> {
  const reply = await client.config('GET', name).catch(() => [])
  const value: unknown = Array.isArray(reply) ? reply[1] : undefined
  return typeof value === 'string' ? value : undefined
}

interface Right {
  /** As an ACL rule says it. */
  readonly rule: string
  readonly command: string
  readonly args: readonly string[]
}

/** The SHA-1 of the script `return 1`. */
const scriptSha = 'e0e1f9fabfc9d4800c877a703b823ac0578ff8db'

/** What the gateway must be allowed to do, tried with commands that change no data. */
const rights: readonly Right[] = [
  { rule: '+@read', command: 'zscore', args: [keys.accounts, 'nobody'] },
  { rule: '+@write', command: 'zadd', args: [keys.accounts, 'XX', '0', 'nobody'] },
  { rule: '+@scripting', command: 'script', args: ['load', 'return 1'] },
  { rule: '+@scripting', command: 'evalsha', args: [scriptSha, '0'] },
  { rule: '+@scripting', command: 'eval', args: ['return 1', '0'] },
]

/** Whether the server's ACL lets this user do what the gateway does. Any other error is left to the other checks. */
async function tryRights(client: Client): Promise<CheckOutcome> {
  for (const { rule, command, args } of rights) {
    const refusal = await client.call(command, ...args).then(() => '', reasonOf)
    if (!refusal.includes('NOPERM')) continue
    const missing = /\bkeys?\b/.test(refusal) ? '~*' : rule
    return fail(`${refusal}: give the user ${missing}, as docs/security.md says`)
  }
  return ok('it may read, write and run scripts')
}

/** How far the clock of Redis is ahead of this machine's, in ms. */
async function readClock(client: Client): Promise<number> {
  const before = Date.now()
  const [seconds, micros] = await client.time()
  const now = (before + Date.now()) / 2
  return Number(seconds) * 1000 + Number(micros) / 1000 - now
}

const clockWarnMs = 1000

/** Never a failure: everything about money uses only the clock of Redis. Ids and dates use this machine's clock. */
export function judgeClock(aheadMs: number): CheckOutcome {
  const off = Math.abs(aheadMs)
  const detail = `${Math.round(off)} ms ${aheadMs < 0 ? 'behind' : 'ahead of'} this machine's`
  if (off < clockWarnMs) return ok(detail)
  return warn(`${detail}: lists may be out of order, and dates wrong; run NTP on both`)
}
