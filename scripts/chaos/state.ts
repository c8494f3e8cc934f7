// Where the gateways keep their state: one Redis, a Cluster of six nodes, or a primary that Sentinels watch; and what
// breaks there. What a fail-over may have lost is noted in `risks`, by watch.ts.

import { setTimeout as pause } from 'node:timers/promises'
import type { RedisConfig } from '../../src/config/config.ts'
import { outlivesKills } from '../../test/fixtures/aof.ts'
import { startCluster } from '../../test/fixtures/redis-cluster.ts'
import type { RedisCluster } from '../../test/fixtures/redis-cluster.ts'
import { startNode } from '../../test/fixtures/redis-node.ts'
import type { RedisNode } from '../../test/fixtures/redis-node.ts'
import { startSentinels } from '../../test/fixtures/redis-sentinel.ts'
import type { RedisSentinels } from '../../test/fixtures/redis-sentinel.ts'
import { tempDir } from '../../test/fixtures/temp-dir.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'
import { until } from '../../test/fixtures/until.ts'
import { oneOf } from './fault.ts'
import type { Chance, Fault } from './fault.ts'
import type { Risks } from './risks.ts'
import { watchFailOvers } from './watch.ts'
import type { Watch } from './watch.ts'

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
  /** Resolves when it is known what each fail-over up to now has lost. */
  settled(): Promise<void>
}

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
    settled: () => Promise.resolve(),
  }
}

async function clusterState(t: Teardown, risks: Risks): Promise<State> {
  const cluster = await startCluster(t)
  const { yaml, config, nodes } = cluster
  const watch = watchFailOvers(t, nodes, risks)
  const failing = (strike: Strike) => (chance: Chance) => expected(cluster, watch, strike, chance)
  return {
    yaml,
    config,
    ports: nodes.map(({ port }) => port),
    faults: [
      ofRedis('a primary is killed', 8000, failing(killing)),
      ofRedis('a primary is frozen', 8000, failing(freezing)),
      ofRedis('a primary hands over', 1000, failing(handingOver(cluster))),
      ofRedis('a replica is killed', 3000, async ({ ms, random }) => {
        const primary = oneOf(await cluster.primaries(), random)
        const [replica] = await cluster.replicasOf(primary)
        if (replica) await killed(replica, ms)
        await cluster.healthy()
      }),
      ofRedis("an account's slot moves", 1000, ({ random }) => moveSlot(cluster, random)),
    ],
    healthy: () => cluster.healthy(),
    settled: () => watch.settled(),
  }
}

async function sentinelState(t: Teardown, risks: Risks): Promise<State> {
  const group = await startSentinels(t)
  const { yaml, config, nodes, sentinels } = group
  const watched: Watched = {
    healthy: () => group.healthy(),
    primaries: async () => [await group.primary()],
  }
  const watch = watchFailOvers(t, nodes, risks)
  const failing = (strike: Strike) => (chance: Chance) => expected(watched, watch, strike, chance)
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
    settled: () => watch.settled(),
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

/** Breaks a primary, or has another server take its place. */
type Strike = (primary: RedisNode, how: Striking) => Promise<void>

interface Striking {
  readonly ms: number
  /** Whether another node has its place. */
  isReplaced(): Promise<boolean>
}

const killing: Strike = (primary, { ms }) => killed(primary, ms)

const freezing: Strike = ({ pid }, { ms }) => signalled([pid], ms)

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
  }

/** The primary waits until its replica has everything: nothing is lost. */
const handingOver =
  (cluster: RedisCluster): Strike =>
  async (primary, { ms }) => {
    const [replica] = await cluster.replicasOf(primary)
    await replica?.client.call('CLUSTER', 'FAILOVER')
    await pause(ms)
  }

interface Watched {
  healthy(): Promise<void>
  primaries(): Promise<readonly RedisNode[]>
}

/** Strikes one primary. If another server takes its place meanwhile, that is planned. */
async function expected(
  { healthy, primaries }: Watched,
  watch: Watch,
  strike: Strike,
  { ms, random }: Chance,
): Promise<void> {
  await healthy()
  const primary = oneOf(await primaries(), random)
  const isReplaced = async () => !(await primaries()).includes(primary)
  const end = watch.expect(primary)
  await strike(primary, { ms, isReplaced })
  await healthy()
  // The watch may see the fail-over a moment later.
  await watch.settled()
  end()
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
