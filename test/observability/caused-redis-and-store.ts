// Alerts on Redis, the file store and the disk: each is caused on a real gateway, and fires from what its /metrics said
// before and after.

import { execFileSync } from 'node:child_process'
import { constants } from 'node:fs'
import { open, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { behind } from '../fixtures/backend-scripts.ts'
import { startDelayProxy } from '../fixtures/delay-proxy.ts'
import { callerOf } from '../fixtures/files-http.ts'
import { fillDisk, noFullDisk } from '../fixtures/full-disk.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway, startGateway } from '../fixtures/gateway.ts'
import type { TestGateway } from '../fixtures/gateway.ts'
import { leapingClock } from '../fixtures/hand-clock.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { metricOf } from '../fixtures/metric.ts'
import { ask, outputOnly } from '../fixtures/money.ts'
import { ensurePrometheus } from '../fixtures/prometheus.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { fires, scrape } from '../fixtures/scrapes.ts'
import { eventually, until } from '../fixtures/until.ts'

await ensurePrometheus()
const nowhere = outputOnly('http://127.0.0.1:1/v1')

const untilMetric = (gateway: TestGateway, name: string, value: number) =>
  until(async () => (await metricOf(gateway, `tollgate_${name} `)) === value)

async function repeat(times: number, call: () => Promise<Response>): Promise<void> {
  for (let i = 0; i < times; i++) await (await call()).text()
}

/** A gateway with answers that wait until `end`, each with its hold. */
async function underWay(t: Test, count: number) {
  const gate = new Gate()
  t.teardown(() => gate.open())
  const backend = await startBackend(t, behind(gate, chat()))
  const gateway = await spawnGateway(t, { yaml: outputOnly(backend.url), isBare: true })
  const { key } = await gateway.account(1_000_000)
  const before = await scrape(gateway)
  const asked = Array.from({ length: count }, () => gateway.call('/v1/chat', key, ask(20, true)))
  await backend.request(count - 1)
  const end = async () => {
    gate.open()
    for (const answer of asked) await (await answer).text()
  }
  return { gateway, before, end }
}

t.test('answers end while Redis is away and the disk is full', { skip: noFullDisk }, async (t) => {
  const count = 25
  const { gateway, before, end } = await underWay(t, count)
  await gateway.redis.kill()
  await untilMetric(gateway, 'redis_up', 0)
  await fires(t, 'TollgateRedisAway', { before, after: [await scrape(gateway)], within: 2 })
  fillDisk(gateway.pid)
  await end()
  await untilMetric(gateway, 'ledger_writes_open', count)
  await untilMetric(gateway, 'spool_unwritten_entries', count)
  const after = [await scrape(gateway)]
  await fires(t, 'TollgateWritesWait', { before, after, within: 11 })
  await fires(t, 'TollgateDiskFull', { before, after, within: 2 })
})

t.test('TollgateLedgerRefuses: the memory of Redis is full', async (t) => {
  const gateway = await startGateway(t, { yaml: nowhere })
  const { key } = await gateway.account(1000)
  const before = await scrape(gateway)
  const { client } = await connectLink(t, gateway.redis.socket)
  await client.config('SET', 'maxmemory', '1')
  await repeat(5, () => gateway.call('/v1/chat', key, ask(5, false)))
  const after = [await scrape(gateway)]
  await fires(t, 'TollgateLedgerRefuses', { before, after, goesOn: true, within: 5 })
})

t.test('TollgateRedisSlow: each reply of Redis takes 150 ms', async (t) => {
  const redis = await startRedis(t)
  const proxy = await startDelayProxy(t, redis.socket)
  const gateway = await startGateway(t, { yaml: nowhere, redisUrl: `unix://${proxy.socket}` })
  const { key } = await gateway.account(1000)
  const work = () => repeat(5, () => gateway.call('/v1/chat', key, ask(5, false)))
  await work()
  const before = await scrape(gateway)
  proxy.setDelay(150)
  await work()
  const after = [await scrape(gateway)]
  await fires(t, 'TollgateRedisSlow', { before, after, goesOn: true, within: 16 })
})

/** A gateway with one file, which was read; the folder of all files, and the file in it. */
async function withFile(t: Test) {
  const gateway = await startGateway(t, { yaml: nowhere })
  const caller = await callerOf(gateway, (await gateway.account(1000)).key)
  const { id } = await caller.make({ content: 'a file' })
  const download = () => caller.call(`GET /${id}`)
  await repeat(1, download)
  const folder = join(gateway.dataDir, 'store')
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const [file] = entries.filter((one) => one.isFile())
  return { gateway, caller, download, folder, path: join(file?.parentPath ?? '', file?.name ?? '') }
}

t.test("TollgateStoreAway: the store's disk is not there", async (t) => {
  const { gateway, caller, folder } = await withFile(t)
  const before = await scrape(gateway)
  await rename(folder, `${folder}-away`)
  await writeFile(folder, '')
  await repeat(5, () => caller.upload({ content: 'another' }))
  const after = [await scrape(gateway)]
  await fires(t, 'TollgateStoreAway', { before, after, goesOn: true, within: 9 })
})

t.test("TollgateStoreSlow: the store's disk hangs for 8 s", async (t) => {
  const clock = leapingClock(t)
  const { gateway, download, path } = await withFile(t)
  const before = await scrape(gateway)
  await rm(path)
  execFileSync('mkfifo', [path])
  const asked = download()
  // Opening a pipe to write fails until somebody reads, and lets the reader go on: it learns of that after the leap.
  const writing = await eventually(() =>
    open(path, constants.O_WRONLY | constants.O_NONBLOCK).catch(() => undefined),
  )
  clock.leap(8000)
  await (await asked).text()
  await writing.close()
  const after = [await scrape(gateway)]
  await fires(t, 'TollgateStoreSlow', { before, after, goesOn: true, within: 26 })
})
