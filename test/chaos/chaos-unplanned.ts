// A night whose fail-over nobody has planned: chaos notes it, forgives what it has lost, and forgives nothing else. The
// primary is frozen, and acknowledged files are deleted, behind its back. `npm run test:long` plays it.

import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import { chaos } from '../../scripts/chaos/chaos.ts'
import { childrenOf } from '../fixtures/process.ts'
import type { Teardown } from '../fixtures/teardown.ts'
import { eventually } from '../fixtures/until.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
/** A busy machine needs a minute to start everything. */
const patienceMs = 240_000
const skip = process.env.LONG ? false : 'only by npm run test:long'

t.test(`only what fail-overs have lost is forgiven (SEED=${seed})`, { skip }, async (t) => {
  const seconds = 60
  const night = chaos(t, { seed, seconds, redis: 'sentinel', only: 'S3 is frozen' })
  const meddling = async () => {
    const servers = await eventually(async () => {
      const found = await serversOf(t)
      return found.length === 3 ? found : undefined
    }, patienceMs)
    await eventually(async () => {
      const files = await filesIn(await primaryOf(servers))
      return files.length > 20 ? files : undefined
    }, patienceMs)
    const { pid } = await primaryOf(servers)
    process.kill(pid, 'SIGSTOP')
    await eventually(async () => {
      const next = await primaryOf(servers.filter((one) => one.pid !== pid)).catch(() => undefined)
      return next
    }, patienceMs).finally(() => process.kill(pid, 'SIGCONT'))
    // Longer than the old primary takes writes.
    await pause(15_000)
    const primary = await primaryOf(servers)
    const files = (await filesIn(primary)).slice(-10)
    await primary.client.del(files)
    return files.map((key) => key.slice(key.indexOf('file_')))
  }
  const [{ broken, failOvers, lost }, deleted] = await Promise.all([night, meddling()])
  t.comment(failOvers, Object.fromEntries(lost), broken, deleted)
  t.ok(
    failOvers.some(({ isPlanned, atRisk }) => !isPlanned && atRisk.length > 0),
    'the fail-over is noted',
  )
  const isReported = (id: string) => broken.includes(`${id} was acknowledged, and is gone`)
  t.ok(deleted.some(isReported), 'what was lost at another time is reported')
  const others = broken.filter((line) => !deleted.some((id) => line.includes(id)))
  t.strictSame(
    others.filter((line) => !/: used is \d+, the rows have \d+$/.test(line)),
    [],
  )
})

interface Server {
  readonly pid: number
  readonly client: Redis
}

/** The servers of this process that Sentinels watch. */
async function serversOf(t: Teardown): Promise<readonly Server[]> {
  const servers: Server[] = []
  for (const pid of await childrenOf(process.pid)) {
    const title = await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => '')
    const port = /redis-server 127\.0\.0\.1:(\d+)\0*$/.exec(title.trimEnd())?.[1]
    if (port === undefined) continue
    const client = new Redis({ port: Number(port), host: '127.0.0.1' })
    client.on('error', () => undefined)
    t.teardown(() => client.disconnect())
    servers.push({ pid, client })
  }
  return servers
}

async function primaryOf(servers: readonly Server[]): Promise<Server> {
  for (const one of servers) {
    const [role] = await one.client.role()
    if (role === 'master') return one
  }
  throw new Error('no server is a primary')
}

async function filesIn({ client }: Server): Promise<string[]> {
  return (await client.keys('*:file:file_*')).sort()
}
