// Chaos sees each fail-over, whoever has caused it, and forgives what that has lost: all of it, and nothing else.

import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { Risks } from '../../scripts/chaos/risks.ts'
import type { Span } from '../../scripts/chaos/risks.ts'
import { watchFailOvers } from '../../scripts/chaos/watch.ts'
import type { Watch } from '../../scripts/chaos/watch.ts'
import { startCluster } from '../fixtures/redis-cluster.ts'
import type { RedisNode } from '../fixtures/redis-node.ts'
import { startSentinels } from '../fixtures/redis-sentinel.ts'
import { until } from '../fixtures/until.ts'

interface Group {
  readonly nodes: readonly RedisNode[]
  primary(): Promise<RedisNode>
  replicas(): Promise<readonly RedisNode[]>
  healthy(): Promise<void>
  /** Another server takes its place by order. */
  failOver(): Promise<void>
}

/** All keys have this tag, so that they are on one server. */
const tag = '{tag}'

const groups = {
  async sentinel(test: Pick<typeof t, 'teardown'>): Promise<Group> {
    const group = await startSentinels(test)
    const replicas = async () => {
      const primary = await group.primary()
      return group.nodes.filter((node) => node !== primary)
    }
    return { ...group, replicas }
  },
  async cluster(test: Pick<typeof t, 'teardown'>): Promise<Group> {
    const cluster = await startCluster(test)
    const primary = () => cluster.primaryOf(tag)
    const replicas = async () => cluster.replicasOf(await primary())
    return {
      nodes: cluster.nodes,
      primary,
      replicas,
      healthy: () => cluster.healthy(),
      async failOver() {
        const [replica] = await replicas()
        await replica?.client.call('CLUSTER', 'FAILOVER')
      },
    }
  },
}

for (const [kind, start] of Object.entries(groups)) {
  t.test(kind, async (t) => {
    const group = await start(t)

    await t.test('what a fail-over loses that nobody has planned may be lost', async (t) => {
      let frozenAt = 0
      const { risks, lost } = await oneForgiven(t, group, async (old) => {
        await pause(1500)
        const replicas = await group.replicas()
        frozenAt = performance.now()
        process.kill(old.pid, 'SIGSTOP')
        await until(() => someIsPrimary(replicas), 60_000).finally(() =>
          process.kill(old.pid, 'SIGCONT'),
        )
      })
      t.ok(lost.length > 0, 'the old primary has acknowledged writes that the new one lacks')
      t.strictSame(
        risks.failOvers.map(({ isPlanned }) => isPlanned),
        [false],
      )
      t.notOk(risks.mayForget({ from: 0, to: frozenAt - 1000 }), 'nothing from before')
      const now = performance.now()
      t.notOk(risks.mayForget({ from: now, to: now }), 'and nothing afterwards')
    })

    await t.test('what a fail-over loses that was planned may be lost', async (t) => {
      const { risks } = await oneForgiven(t, group, async (old, watch) => {
        watch.expect(old)
        await pause(500)
        await group.failOver()
      })
      t.strictSame(
        risks.failOvers.map(({ isPlanned }) => isPlanned),
        [true],
      )
      if (kind === 'cluster')
        t.strictSame(risks.failOvers[0]?.atRisk, [], 'it hands over everything')
    })

    await t.test('a primary that dies may have lost its last moment', async (t) => {
      let [killedAt, restartedAt] = [0, 0]
      const { risks } = await oneForgiven(t, group, async (old) => {
        await pause(1500)
        const replicas = await group.replicas()
        killedAt = performance.now()
        await old.kill()
        await until(() => someIsPrimary(replicas), 60_000)
        await pause(1000)
        restartedAt = performance.now()
        await old.restart()
      })
      t.comment({ killedAt, restartedAt })
      t.equal(risks.failOvers.length, 1)
      t.notOk(risks.mayForget({ from: 0, to: killedAt - 1000 }), 'nothing from before')
      const dead = { from: killedAt + 800, to: restartedAt - 700 }
      t.notOk(risks.mayForget(dead), 'nothing while it was dead')
    })
  })
}

/** Of one fail-over. On a busy machine another server may be replaced, too: then it is tried again. */
async function oneForgiven(...[t, group, fail]: Parameters<typeof allForgiven>) {
  for (let tries = 1; ; tries++) {
    const found = await allForgiven(t, group, fail)
    if (found.risks.failOvers.length === 1 || tries === 3) return found
  }
}

/** Writes to the primary while `fail` has another server take its place. All that is lost then must be forgiven. */
async function allForgiven(
  t: Test,
  group: Group,
  fail: (primary: RedisNode, watch: Watch) => Promise<void>,
) {
  const risks = new Risks()
  const watch = watchFailOvers(t, group.nodes, risks)
  // What is written before the first look could be lost without the watch knowing of it.
  await watch.settled()
  const old = await group.primary()
  const writing = write(old)
  await fail(old, watch)
  const written = await writing
  await group.healthy()
  await watch.settled()
  const lost = await missing(written, await group.primary())
  t.comment(risks.failOvers, `${lost.length} of ${written.length} lost`)
  t.strictSame(
    lost.filter(({ at }) => !risks.mayForget(at)),
    [],
  )
  return { risks, lost }
}

async function someIsPrimary(nodes: readonly RedisNode[]): Promise<boolean> {
  const roles = await Promise.all(nodes.map(({ client }) => client.role()))
  return roles.some(([role]) => role === 'master')
}

interface Written {
  readonly key: string
  /** From the command to the answer. */
  readonly at: Span
}

/** Of all tests: no key is written twice, since the second value would hide that the first one was lost. */
let keys = 0

/** Writes to this server until it takes no writes; resolves with what it has acknowledged. */
async function write(node: RedisNode): Promise<readonly Written[]> {
  const client = node.client.duplicate({ retryStrategy: () => null })
  client.on('error', () => undefined)
  const acknowledged: Written[] = []
  let isPrimary = true
  while (isPrimary) {
    const key = `${tag}${keys++}`
    const from = performance.now()
    // While the server hangs, the commands wait in its socket.
    client.set(key, 1).then(
      () => acknowledged.push({ key, at: { from, to: performance.now() } }),
      () => (isPrimary = false),
    )
    await pause(2)
  }
  client.disconnect()
  return acknowledged
}

async function missing(
  written: readonly Written[],
  { client }: RedisNode,
): Promise<readonly Written[]> {
  const values = await client.mget(written.map(({ key }) => key))
  return written.filter((_, i) => values[i] === null)
}
