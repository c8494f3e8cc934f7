// What the log says of an outage: one line when it begins and one when it is over, however many requests it affected.

import { readFileSync, writeFileSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { durable } from '../fixtures/aof.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { fillDisk, freeDisk, noFullDisk } from '../fixtures/full-disk.ts'
import { codeOf, spawnGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { ask, balanceNow, differencesOf, outputOnly } from '../fixtures/money.ts'
import { redisServerPath, startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

interface Line {
  readonly level: string
  readonly msg: string
  readonly code?: string
  readonly refused?: number
}

const linesOf = ({ stdout }: OwnProcess) => stdout.map((line) => JSON.parse(line) as Line)
const noRequests = ({ msg }: Line) => msg !== 'request'
const refusedLines = (gateway: OwnProcess) =>
  linesOf(gateway).filter(({ code }) => code === 'ledger_unavailable')
const requests = 30

const readyz = async ({ adminUrl }: OwnProcess) => {
  const answer = await fetch(`${adminUrl}/readyz`)
  return { status: answer.status, body: (await answer.json()) as object }
}

t.test('Redis is away: two lines, with the duration and the refused requests', async (t) => {
  const backend = await startBackend(t, chat())
  const redis = await startRedis(t, { args: durable })
  const gateway = await spawnGateway(t, { redis, yaml: outputOnly(backend.url) })
  const account = await gateway.account(1000)
  await until(() => linesOf(gateway).some(({ msg }) => msg === 'listening'))
  const before = linesOf(gateway).filter(noRequests).length

  await redis.kill()
  await until(async () => (await readyz(gateway)).status === 503)
  for (let i = 0; i < requests; i++) {
    const refused = await gateway.call('/v1/chat', account.key, ask(100, i % 2 === 0))
    t.equal(await codeOf(refused), 'ledger_unavailable')
  }
  await redis.restart()
  await until(async () => (await readyz(gateway)).status === 200)
  await until(() => linesOf(gateway).some(({ refused }) => refused !== undefined))
  t.match(linesOf(gateway).filter(noRequests).slice(before), [
    { level: 'warn', msg: 'Redis is away: work that needs it is refused', reason: String },
    { level: 'info', msg: 'Redis is connected again', refused: requests, away_ms: Number },
  ])
  await until(() => refusedLines(gateway).length === requests)
  t.notMatch(gateway.stdout.join('\n'), /"stack"/)
})

/** A redis-server that survives the signal for a file that grows too long. */
async function hardyServer(dir: string): Promise<string> {
  const path = join(dir, 'redis-server')
  writeFileSync(path, `#!/bin/sh\ntrap '' XFSZ\nexec '${await redisServerPath()}' "$@"\n`)
  await chmod(path, 0o755)
  return path
}

t.test(
  "the embedded Redis' disk is full: 503, logged once, not ready; with room again it works",
  { skip: noFullDisk },
  async (t) => {
    const backend = await startBackend(t, chat())
    const dataDir = join(await tempDir(t), 'data')
    const gateway = await spawnGateway(t, {
      redisUrl: 'embedded',
      dataDir,
      yaml: outputOnly(backend.url),
      env: { REDIS_SERVER: await hardyServer(await tempDir(t)) },
    })
    const account = await gateway.account(100_000)
    const record = JSON.parse(readFileSync(join(dataDir, 'redis.json'), 'utf8')) as Recorded
    const { client } = await connectLink(t, record.socket)
    const pid = Number(/process_id:(\d+)/.exec(await client.info('server'))?.[1])
    await until(() => linesOf(gateway).some(({ msg }) => msg === 'listening'))
    const before = linesOf(gateway).filter(noRequests).length

    fillDisk(pid)
    const call = () => gateway.call('/v1/chat', account.key, ask(100, false))
    await until(async () => (await call()).status === 503)
    const answered = backend.requests.length
    for (let i = 0; i < requests; i++) t.equal(await codeOf(await call()), 'ledger_unavailable')
    t.equal(backend.requests.length, answered, 'no refused request was sent on')
    t.match(await readyz(gateway), { status: 503, body: { redis: 'refuses to write (MISCONF)' } })

    freeDisk(pid)
    await until(async () => (await readyz(gateway)).status === 200)
    t.equal((await call()).status, 200)
    await until(async () => (await balanceNow(gateway, account))?.reserved === 0)
    t.match(await balanceNow(gateway, account), { balance: 100_000 - backend.served.completion })
    t.same(await differencesOf(gateway), [])
    await until(() => linesOf(gateway).some(({ refused }) => refused !== undefined))
    t.match(linesOf(gateway).filter(noRequests).slice(before), [
      { level: 'warn', msg: 'Redis refuses to write: work that needs it is refused' },
      { level: 'info', msg: 'Redis writes again', refused: requests + 1, refused_ms: Number },
    ])
    t.notMatch(gateway.stdout.join('\n'), /"stack"/)
  },
)

interface Recorded {
  readonly socket: string
}
