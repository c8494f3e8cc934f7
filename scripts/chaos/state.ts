// Where the gateways keep their state: one Redis, a Cluster of six nodes, or a primary that Sentinels watch; and what
// breaks there. What a fail-over may have lost is noted in `risks`.

import { setTimeout as pause } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RedisConfig } from '../../src/config/config.ts'
import { parseInfo } from '../../src/redis/server-kind.ts'
import { outlivesKills } from '../../test/fixtures/aof.ts'
import { startCluster } from '../../test/fixtures/redis-cluster.ts'
import type { RedisCluster } from '../../test/fixtures/redis-cluster.ts'
import { startNode } from '../../test/fixtures/redis-node.ts'
import type { RedisNode } from '../../test/fixtures/redis-node.ts'
import { startSentinels } from '../../test/fixtures/redis-sentinel.ts'
import type { RedisSentinels } from '../../test/fixtures/redis-sentinel.ts'
import { tempDir } from '../../test/fixtures/temp-dir.ts'
import { until } from '../../test/fixtures/until.ts'
import { oneOf } from './fault.ts'
import type { Chance, Fault } from './fault.ts'
import type { Risks } from './risks.ts'

export const stateKinds = ['single', 'cluster', 'sentinel'] as const
export type StateKind = (typeof stateKinds)[number]

export interface State {
  /** For `redis` in gateway.yaml. */
  readonly yaml: string
  readonly config: RedisConfig
  /** Of all servers that a gateway connects to. */
  readonly ports: readonly number[]
  readonly faults: readonly Fault[]
  /** Resolves when all servers run and agree. */
  healthy(): Promise<void>
}

type Teardown = Pick<Test, 'teardown'>

export function startState(t: Teardown, kind: StateKind, risks: Risks): Promise<State> {
  if (kind === 'cluster') return clusterState(t, risks)
  if (kind === 'sentinel') return sentinelState(t, risks)
  return singleState(t)
}

async function singleState(t: Teardown): Promise<State> {
  const node = await startNode(t, { dir: await tempDir(t), args: outlivesKills })
  const { port } = node
  return {
    yaml: `redis://127.0.0.1:${port}`,
    config: { kind: 'single', host: '127.0.0.1', port, db: 0 },
    ports: [port],
    faults: [
      ofRedis('Redis is killed', 3000, ({ ms }) => killed(node, ms)),
      ofRedis('Redis is frozen', 5000, ({ ms }) => signalled([node.pid], ms)),
    ],
    async healthy() {
      await node.client.ping()
    },
  }
}

async function clusterState(t: Teardown, risks: Risks): Promise<State> {
  const cluster = await startCluster(t)
  const { yaml, config, nodes } = cluster
  const failing = (strike: Strike) => (chance: Chance) => underWatch(cluster, risks, strike, chance)
  return {
    yaml,
    config,
    ports: nodes.map(({ port }) => port),
    faults: [
      ofRedis('a primary is killed', 8000, failing(killing)),
      ofRedis('a primary is frozen', 8000, failing(freezing)),
      ofRedis('a primary hands over', 1000, ({ ms, random }) => handOver(cluster, ms, random)),
      ofRedis('a replica is killed', 3000, async ({ ms, random }) => {
        const primary = oneOf(await cluster.primaries(), random)
        const [replica] = await cluster.replicasOf(primary)
        if (replica) await killed(replica, ms)
        await cluster.healthy()
      }),
      ofRedis("an account's slot moves", 1000, ({ random }) => moveSlot(cluster, random)),
    ],
    healthy: () => cluster.healthy(),
  }
}

async function sentinelState(t: Teardown, risks: Risks): Promise<State> {
  const group = await startSentinels(t)
  const { yaml, config, nodes, sentinels } = group
  const watched: Watched = {
    healthy: () => group.healthy(),
    primaries: async () => [await group.primary()],
  }
  const failing = (strike: Strike) => (chance: Chance) => underWatch(watched, risks, strike, chance)
  return {
    yaml,
    config,
    ports: [...nodes, ...sentinels].map(({ port }) => port),
    faults: [
      ofRedis('the primary is killed', 8000, failing(killing)),
      ofRedis('the primary is frozen', 8000, failing(freezing)),
      ofRedis('the Sentinels choose another primary', 1000, failing(choosing(group))),
      ofRedis('a replica is killed', 3000, async ({ ms, random }) => {
        const primary = await group.primary()
        const replicas = nodes.filter((node) => node !== primary)
        await killed(oneOf(replicas, random), ms)
        await group.healthy()
      }),
      ofRedis('a Sentinel is killed', 3000, async ({ ms, random }) => {
        await killed(oneOf(sentinels, random), ms)
        await group.healthy()
      }),
    ],
    healthy: () => group.healthy(),
  }
}

const ofRedis = (name: string, atMost: number, run: (chance: Chance) => Promise<void>): Fault => ({
  name,
  touches: 'redis',
  atMost,
  run,
})

export async function signalled(pids: readonly number[], ms: number): Promise<void> {
  for (const pid of pids) process.kill(pid, 'SIGSTOP')
  await pause(ms)
  for (const pid of pids) process.kill(pid, 'SIGCONT')
}

async function killed(node: RedisNode, ms: number): Promise<void> {
  await node.kill()
  await pause(ms)
  await node.restart()
}

/** Breaks a primary. Resolves with the time of its death, if another node had its place before it came back. */
type Strike = (primary: RedisNode, how: Striking) => Promise<number | undefined>

interface Striking {
  readonly ms: number
  /** Whether another node has its place. */
  isReplaced(): Promise<boolean>
}

const killing: Strike = async (primary, { ms, isReplaced }) => {
  await primary.kill()
  const diedAt = performance.now()
  await pause(ms)
  const isTooLate = await isReplaced()
  await primary.restart()
  return isTooLate ? diedAt : undefined
}

const freezing: Strike = async ({ pid }, { ms }) => {
  await signalled([pid], ms)
  return undefined
}

/** A Sentinel does not wait for the replica to have everything. It may give up, and is then asked again. */
const choosing =
  ({ failOver }: RedisSentinels): Strike =>
  async (_primary, { isReplaced }) => {
    const end = performance.now() + 60_000
    while (!(await isReplaced()) && performance.now() < end) {
      // Refused while one is under way.
      await failOver().catch(() => undefined)
      await until(isReplaced, 10_000).catch(() => undefined)
    }
    return undefined
  }

interface Watched {
  healthy(): Promise<void>
  primaries(): Promise<readonly RedisNode[]>
}

/** Strikes one primary, and notes what may be lost if another node has taken its place. */
async function underWatch(
  { healthy, primaries }: Watched,
  risks: Risks,
  strike: Strike,
  { ms, random }: Chance,
): Promise<void> {
  await healthy()
  const primary = oneOf(await primaries(), random)
  const isReplaced = async () => !(await primaries()).includes(primary)
  const from = await agreedAt(primary)
  const diedAt = await strike(primary, { ms, isReplaced })
  const healing = healthy()
  const to = diedAt ?? (await demotedAt(primary, healing))
  await healing
  if (to === undefined || !(await isReplaced())) return
  risks.add({ acknowledged: { from, to }, healedAt: performance.now() })
}

/** Resolves with a time: what the primary had acknowledged by then has reached its replicas. */
async function agreedAt({ client }: RedisNode): Promise<number> {
  const at = performance.now()
  const offset = Number(parseInfo(await client.info('replication')).get('master_repl_offset'))
  await until(async () => {
    const replicas = (await client.info('replication')).match(/^slave\d+:.*$/gm) ?? []
    return (
      replicas.length > 0 &&
      replicas.every((one) => Number(/offset=(\d+)/.exec(one)?.[1]) >= offset)
    )
  }, 20_000)
  return at
}

/** When a primary has learned that it is none any more, which it acknowledges writes until; or undefined if it is still one when all is healed. */
async function demotedAt(
  { client }: RedisNode,
  healing: Promise<void>,
): Promise<number | undefined> {
  let isHealed = false
  const over = () => void (isHealed = true)
  healing.then(over, over)
  for (;;) {
    const [role] = await client.role()
    if (role === 'slave') return performance.now()
    if (isHealed) return undefined
    await pause(10)
  }
}

/** The primary waits until its replica has everything: nothing may be lost. */
async function handOver(cluster: RedisCluster, ms: number, random: Chance['random']) {
  await cluster.healthy()
  const primary = oneOf(await cluster.primaries(), random)
  const [replica] = await cluster.replicasOf(primary)
  if (!replica) return
  await replica.client.call('CLUSTER', 'FAILOVER')
  await pause(ms)
  await cluster.healthy()
}

async function moveSlot(cluster: RedisCluster, random: Chance['random']): Promise<void> {
  await cluster.healthy()
  const primaries = await cluster.primaries()
  const from = oneOf(primaries, random)
  const key = await from.client.call('RANDOMKEY')
  if (typeof key !== 'string') return
  const to = oneOf(
    primaries.filter((one) => one !== from),
    random,
  )
  await cluster.moveSlot(Number(await to.client.cluster('KEYSLOT', key)), to)
  await cluster.healthy()
}
