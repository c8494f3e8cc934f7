// Watches the servers of a Cluster, or those that Sentinels watch, all the time: each fail-over is noted in `risks`,
// whoever has caused it. On a busy machine a server seems to be down now and then, and is replaced, without any fault.

import { setTimeout as pause } from 'node:timers/promises'
import { parseInfo } from '../../src/redis/server-kind.ts'
import type { RedisNode } from '../../test/fixtures/redis-node.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'
import { until } from '../../test/fixtures/until.ts'
import { Lineage } from './lineage.ts'
import type { Origins, ServerView } from './lineage.ts'
import type { Risks } from './risks.ts'

export interface Watch {
  /** Fail-overs of this server are planned from now on, until what is returned is called. */
  expect(node: RedisNode): () => void
  /** Resolves when it is known what each fail-over up to now has lost. */
  settled(): Promise<void>
}

/** How exactly it is known when a server had which writes. */
const lookMs = 50
const settlingMs = 60_000

interface Expected {
  readonly node: RedisNode
  readonly from: number
  to: number
}

export function watchFailOvers(t: Teardown, nodes: readonly RedisNode[], risks: Risks): Watch {
  const origins: Origins = new Map()
  const planned: Expected[] = []
  const isPlanned = (node: RedisNode, at: number) =>
    planned.some((one) => one.node === node && one.from <= at && at <= one.to)
  const looks = nodes.map((node) => {
    const lineage = new Lineage(origins, ({ at, atRisk, healedAt }) =>
      risks.add({ atRisk, healedAt, isPlanned: isPlanned(node, at) }),
    )
    return follow(t, node, lineage)
  })
  return {
    expect(node) {
      const one = { node, from: performance.now(), to: Infinity }
      planned.push(one)
      return () => void (one.to = performance.now())
    },
    async settled() {
      const now = performance.now()
      const isSettled = ({ askedAt, lineage }: Look) => askedAt > now && !lineage.isOpen
      await until(() => looks.every(isSettled), settlingMs)
    },
  }
}

interface Look {
  readonly lineage: Lineage
  /** Of the last answer, or when it was last known to be down. */
  readonly askedAt: number
}

function follow(t: Teardown, node: RedisNode, lineage: Lineage): Look {
  // Its own connection: a command fails with the connection, and is not sent again, perhaps to the next process.
  const client = node.client.duplicate({
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  })
  client.on('error', () => undefined)
  let isOver = false
  t.teardown(() => {
    isOver = true
    client.disconnect()
  })
  const look = { lineage, askedAt: 0 }
  const ask = async () => {
    const askedAt = performance.now()
    const { pid, isRunning } = node
    if (!isRunning) lineage.isDown(askedAt)
    else {
      const info = await client.info('replication').catch(() => undefined)
      if (info === undefined || node.pid !== pid) return
      lineage.saw(seenIn(info, askedAt))
    }
    look.askedAt = askedAt
  }
  void (async () => {
    while (!isOver) {
      await ask()
      await pause(lookMs)
    }
  })()
  return look
}

function seenIn(text: string, askedAt: number): ServerView {
  const info = parseInfo(text)
  const position = (id: string, offset: string) => ({
    id: info.get(id) ?? '',
    offset: Number(info.get(offset)),
  })
  const left = position('master_replid2', 'second_repl_offset')
  return {
    askedAt,
    answeredAt: performance.now(),
    isPrimary: info.get('role') === 'master',
    isLinked: info.get('master_link_status') === 'up',
    at: position('master_replid', 'master_repl_offset'),
    // INFO names the first offset that is no part of it.
    left: { ...left, offset: left.offset - 1 },
  }
}
