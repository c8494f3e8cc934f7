// Runs one attack beside an honest customer: two new gateways on a new Redis, the customer's figures before and during
// the attack, how much the gateways and Redis grew, and the verdict.

import { Redis } from 'ioredis'
import { rssBytes } from '../../../bench/processes.ts'
import type { Account, OwnProcess } from '../../../test/fixtures/gateway.ts'
import { spawnGateway } from '../../../test/fixtures/gateway.ts'
import { metricOf } from '../../../test/fixtures/metric.ts'
import { startRedis } from '../../../test/fixtures/redis-server.ts'
import type { Teardown } from '../../../test/fixtures/teardown.ts'
import { tempDir } from '../../../test/fixtures/temp-dir.ts'
import { startHonestBackend } from '../backend.ts'
import { withTeardown } from '../../ending.ts'
import { startWorker } from '../../worker.ts'
import { modelsYaml } from '../models.ts'
import { attacks } from './attacks.ts'
import type { Answers, Assault, Measure, Measured } from './orders.ts'

/** The programs of a customer and of an attacker, for `startWorker`. */
export const customerFile = new URL('customer.ts', import.meta.url)
export const attackerFile = new URL('attacker.ts', import.meta.url)

export interface Siege {
  readonly name: string
  readonly item: number
  readonly p99BeforeMs: number
  readonly p99Ms: number
  readonly requests: number
  readonly failures: Readonly<Record<string, number>>
  /** The longest time that the event loop of the attacked gateway was blocked. */
  readonly heldMs: number
  readonly rssMiB: number
  readonly redisMiB: number
  readonly answers: Answers
  readonly fault: string
}

interface SiegeOptions {
  readonly warmMs: number
  readonly beforeMs: number
  readonly duringMs: number
}

const MiB = 2 ** 20
/** The storage quota of an attacker's account. */
const quotaMiB = 16
/** The most that the customer's latency may grow. On a machine that has other work, this says nothing. */
const mostGrowthMs = 100
/** The most that a gateway's memory may grow. */
const mostRssMiB = 150
const furtherMs = 1000
/** Room for the customer's own journal and sessions, and for Redis' own buffers. */
const redisSlackMiB = 4

export function besiege(name: string, options: SiegeOptions): Promise<Siege> {
  return withTeardown((t) => besieged(t, name, options))
}

async function besieged(t: Teardown, name: string, options: SiegeOptions): Promise<Siege> {
  const customer = await startWorker<Measure, Measured>(t, customerFile)
  const attacker = await startWorker<Assault, Answers>(t, attackerFile)
  const { redis, gateways } = await startBesieged(t, customer.address)
  const scene = await sceneOf(gateways)
  const measure = (ms: number) => customer.order({ ...scene.measure, ms })
  const order = { ...scene.assault, attack: name, ms: options.duringMs }
  await measure(options.warmMs)
  const prepared = await attacker.order({ ...order, step: 'prepare' })
  const before = await measure(options.beforeMs)
  const memory = watchMemory(gateways.map(({ pid }) => pid))
  const link = new Redis(redis.socket)
  t.teardown(async () => void (await link.quit()))
  await heldMs(gateways[0])
  const redisBefore = await redisBytes(link)
  const attack = attacker.order({ ...order, step: 'run' })
  const during = await measuredUntil(attack, { first: options.duringMs, measure })
  const answers = await attack
  const redisMiB = ((await redisBytes(link)) - redisBefore) / MiB
  const siege = {
    name,
    item: attacks[name]?.item ?? 0,
    p99BeforeMs: p99(before),
    p99Ms: p99(during),
    requests: before.requests + during.requests,
    failures: during.failures,
    heldMs: await heldMs(gateways[0]),
    rssMiB: memory.grownMiB(),
    redisMiB,
    answers: { ...marked(prepared), ...answers },
  }
  return { ...siege, fault: faultOf(siege) }
}

/** Keeps measuring until the attack is over, also while the gateway still works on what was begun late. */
export async function measuredUntil(
  attack: Promise<unknown>,
  { first, measure }: { first: number; measure(ms: number): Promise<Measured> },
): Promise<Measured> {
  let isOver = false
  const over = () => void (isOver = true)
  void attack.then(over, over)
  const all = [await measure(first)]
  while (!isOver) all.push(await measure(furtherMs))
  const failures: Record<string, number> = {}
  for (const one of all) {
    for (const [what, many] of Object.entries(one.failures)) {
      failures[what] = (failures[what] ?? 0) + many
    }
  }
  return {
    requests: all.reduce((sum, { requests }) => sum + requests, 0),
    latenciesMs: all.flatMap(({ latenciesMs }) => latenciesMs).toSorted((a, b) => a - b),
    failures,
  }
}

function faultOf(siege: Omit<Siege, 'fault'>): string {
  const { p99BeforeMs, p99Ms, failures, rssMiB, redisMiB, answers } = siege
  const faults: string[] = []
  const failed = Object.values(failures).reduce((all, one) => all + one, 0)
  if (failed > 0) faults.push(`${failed} failed`)
  if (p99Ms - p99BeforeMs >= mostGrowthMs) faults.push('slowed down')
  if (rssMiB >= mostRssMiB) faults.push('memory')
  if (redisMiB > quotaMiB + redisSlackMiB) faults.push('Redis')
  if (siege.name === 'files without money' && (answers['201'] ?? 0) > quotaMiB) faults.push('disk')
  return faults.join(', ')
}

export async function startBesieged(t: Teardown, customersBackend: string) {
  const backend = await startHonestBackend(t)
  const redis = await startRedis(t, { args: ['--appendonly', 'yes'] })
  const yaml = `${modelsYaml(backend.url)}
  customer: { targets: [{ url: '${customersBackend}' }] }
store: { disk: { path: ${await tempDir(t)} } }
plans:
  # Twice what the customer asks for.
  quiet: { requests_per_minute: 240 }
  honest: { requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: 1000 }
  rich: { tokens_per_minute: 1000000000 }
  thief: { requests_per_minute: 600, storage: ${quotaMiB}MiB }
# As many uploads at a time as an S3 store lets a gateway have.
limits: { uploads: 78MiB }
log: { level: error, format: json }
`
  const spawn = () => spawnGateway(t, { yaml, redis })
  return { redis, gateways: [await spawn(), await spawn()] as const }
}

export async function sceneOf([first, second]: readonly [OwnProcess, OwnProcess]) {
  const honest = await first.account(1_000_000_000, { plan: 'honest' })
  const quiet = await first.account(1000, { plan: 'quiet' })
  const rich = await first.account(1_000_000_000, { plan: 'rich' })
  const poor = [
    await first.account(0, { plan: 'thief' }),
    await first.account(0, { plan: 'thief' }),
  ]
  const made = await first.call('/api/chat/sessions', honest.key, {})
  const { id: session } = (await made.json()) as { readonly id: string }
  const measure = { url: first.url, key: honest.key, quietKey: quiet.key, session }
  const assault = {
    urls: [first.url, second.url] as const,
    poorKeys: poor.map(({ key }) => key),
    richKey: rich.key,
    victimRef: quiet.key.slice('tg_live_'.length, 'tg_live_'.length + 12),
    revokedKey: await revokedKeyOf(first, quiet),
  }
  return { measure, assault }
}

async function revokedKeyOf(gateway: OwnProcess, account: Account): Promise<string> {
  const { id, key } = await gateway.keyFor(account.id)
  await (await gateway.admin('DELETE', `keys/${id}`)).text()
  return key
}

/** Returns a function that tells how much more memory one of the processes has had since now, at most. */
function watchMemory(pids: readonly number[]) {
  const before = pids.map((pid) => rssBytes([pid]))
  let grown = 0
  const look = () => {
    for (const [i, pid] of pids.entries())
      grown = Math.max(grown, rssBytes([pid]) - (before[i] ?? 0))
  }
  const timer = setInterval(look, 100)
  return {
    grownMiB() {
      clearInterval(timer)
      look()
      return grown / MiB
    },
  }
}

/** The memory of Redis' data, without its buffers for clients and for its log, which come and go. */
async function redisBytes(link: Redis): Promise<number> {
  const info = await link.info('memory')
  const read = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0)
  return read('used_memory') - read('mem_clients_normal') - read('mem_aof_buffer')
}

/** The longest block of the event loop since the last call. */
async function heldMs(gateway: OwnProcess): Promise<number> {
  return 1000 * (await metricOf(gateway, 'nodejs_eventloop_lag_max_seconds '))
}

function p99({ latenciesMs }: Measured): number {
  return latenciesMs[Math.floor((latenciesMs.length - 1) * 0.99)] ?? 0
}

const marked = (answers: Answers): Answers =>
  Object.fromEntries(Object.entries(answers).map(([what, many]) => [`first ${what}`, many]))
