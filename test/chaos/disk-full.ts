// A full data disk: streams go on, their charges wait in memory until there is room, and then nothing is missing.

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { callerOf } from '../fixtures/files-http.ts'
import { fillDisk, freeDisk, noFullDisk } from '../fixtures/full-disk.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf, spawnGateway } from '../fixtures/gateway.ts'
import type { TestGateway } from '../fixtures/gateway.ts'
import { metricOf } from '../fixtures/metric.ts'
import { Reading, ask, balanceNow, differencesOf, outputOnly } from '../fixtures/money.ts'
import { durable } from '../fixtures/aof.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const streams = 20
const chunks = 60

/** Streams that wait after their first three tokens, on a Redis that loses nothing that it has acknowledged. */
async function midStreams(t: Test) {
  const gates = Array.from({ length: streams }, () => new Gate())
  const waiting = [...gates]
  const backend = await startBackend(t, (call) => chat({ chunks, gate: waiting.pop() })(call))
  const redis = await startRedis(t, { args: durable })
  const yaml = outputOnly(backend.url)
  const gateway = await spawnGateway(t, { redis, yaml, isBare: true })
  const account = await gateway.account(100_000)
  for (const gate of gates) gate.next(4)
  const readings = await Promise.all(
    Array.from({ length: streams }, async () => {
      const reading = new Reading(await gateway.call('/v1/chat', account.key, ask(100, true)))
      await reading.until('w2 ')
      return reading
    }),
  )
  const open = () => {
    for (const gate of gates) gate.open()
  }
  return { open, backend, redis, yaml, gateway, account, readings }
}

const readiness = async ({ adminUrl }: TestGateway) => {
  const answer = await fetch(`${adminUrl}/readyz`)
  return (await answer.json()) as { readonly redis: string; readonly spool: string }
}

const unwritten = (gateway: TestGateway) => metricOf(gateway, 'tollgate_spool_unwritten_entries ')

const writesOpen = (gateway: TestGateway) => metricOf(gateway, 'tollgate_ledger_writes_open ')

const linesWith = ({ log }: TestGateway, word: string) => log.filter((line) => line.includes(word))

t.test(
  'the disk is full while Redis is away: streams go on, and once there is room nothing is lost with the gateway',
  { skip: noFullDisk },
  async (t) => {
    const { open, backend, redis, yaml, gateway, account, readings } = await midStreams(t)
    fillDisk(gateway.pid)
    await redis.kill()
    await until(async () => (await readiness(gateway)).redis !== 'ok')
    open()
    for (const reading of readings) t.match(await reading.end(), /data: \[DONE\]\n\n$/)
    t.equal(backend.served.completion, streams * chunks)
    await until(async () => (await unwritten(gateway)) === streams)
    t.match(await readiness(gateway), {
      spool: `the disk refuses writes; ${streams} entries wait in memory`,
    })

    freeDisk(gateway.pid)
    await until(async () => (await readiness(gateway)).spool === 'ok')
    await until(async () => (await unwritten(gateway)) === 0)
    t.equal(await writesOpen(gateway), streams, 'Redis has none of them yet')
    const said = () => linesWith(gateway, 'the spool ').length
    await until(() => said() > 1)
    t.equal(said(), 2, 'a line when it began, one when it was over')
    await gateway.kill()
    await redis.restart()
    const heir = await spawnGateway(t, { redis, yaml, dataDir: gateway.dataDir })
    await until(async () => (await balanceNow(heir, account))?.reserved === 0)
    t.match(await balanceNow(heir, account), { balance: 100_000 - backend.served.completion })
    await until(async () => (await writesOpen(heir)) === 0)
    t.same(await differencesOf(heir), [])
  },
)

t.test(
  'a gateway that ends on a full disk, with Redis away, says how much it could not keep',
  { skip: noFullDisk },
  async (t) => {
    const { open, redis, gateway, readings } = await midStreams(t)
    fillDisk(gateway.pid)
    await redis.kill()
    await until(async () => (await readiness(gateway)).redis !== 'ok')
    open()
    for (const reading of readings) await reading.end()
    t.equal(await gateway.stop(), 0)
    const [line = '{}', ...others] = linesWith(gateway, 'the disk refused')
    t.same(others, [])
    t.match(JSON.parse(line), { level: 'error', entries: streams })
  },
)

t.test(
  'the disk is full and Redis is there: work goes on, a top-up is refused before it is made',
  { skip: noFullDisk },
  async (t) => {
    const { open, gateway, account, readings } = await midStreams(t)
    const topUp = () => gateway.admin('POST', `accounts/${account.id}/topup`, { amount: 7 })
    fillDisk(gateway.pid)
    const first = await topUp()
    t.equal(first.status, 503)
    t.equal(await codeOf(first), 'ledger_unavailable')
    const granted = (await balanceNow(gateway, account))?.granted
    t.equal((await topUp()).status, 503)
    t.equal((await balanceNow(gateway, account))?.granted, granted, 'the second was not made')
    open()
    for (const reading of readings) t.match(await reading.end(), /data: \[DONE\]\n\n$/)
    const answer = await gateway.call('/v1/chat', account.key, ask(100, false))
    t.equal(answer.status, 200, 'what needs no disk is admitted')
    t.equal((await fetch(`${gateway.adminUrl}/readyz`)).status, 200)

    freeDisk(gateway.pid)
    await until(async () => (await readiness(gateway)).spool === 'ok')
    t.equal((await topUp()).status, 200)
    const said = () => linesWith(gateway, 'the spool ').length
    await until(() => said() > 1)
    t.equal(said(), 2)
    t.same(await differencesOf(gateway), [])
  },
)

t.test(
  'a file that does not fit is refused, and leaves nothing',
  { skip: noFullDisk },
  async (t) => {
    const { gateway, account } = await midStreams(t)
    const own = await callerOf(gateway, account.key)
    const upload = () => own.upload({ content: 'x'.repeat(200_000) })
    fillDisk(gateway.pid, 100_000)
    const refused = await upload()
    t.equal(refused.status, 503)
    t.equal(await codeOf(refused), 'storage_unavailable')
    const left = await readdir(join(gateway.dataDir, 'store'), { recursive: true })
    t.same(
      left.filter((name) => name !== '.tmp'),
      [],
    )
    freeDisk(gateway.pid)
    t.equal((await upload()).status, 201)
  },
)
