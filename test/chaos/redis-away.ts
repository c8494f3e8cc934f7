// Redis killed during streams, and a Redis that forgot what it had acknowledged: promises 7 and 8, from outside.

import { cp, readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { cutOff, durable } from '../fixtures/aof.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf, spawnGateway } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import {
  Reading,
  ask,
  balanceNow,
  balanceOf,
  differencesOf,
  outputOnly,
  refOf,
  transactionsOf,
} from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { soon, until } from '../fixtures/until.ts'

/** The texts of all files in a folder. */
async function textsIn(dir: string): Promise<string> {
  const names = await readdir(dir)
  return (await Promise.all(names.map((name) => readFile(join(dir, name), 'utf8')))).join('')
}

/** A stream that waits after its first three tokens, on a Redis that loses nothing that it has acknowledged. */
async function midStream(t: Test) {
  const gate = new Gate()
  const backend = await startBackend(t, chat({ chunks: 8, gate }))
  const redis = await startRedis(t, { args: durable })
  const yaml = outputOnly(backend.url)
  const gateway = await spawnGateway(t, { redis, yaml })
  const account = await gateway.account(1000)
  gate.next(4)
  const reading = new Reading(await gateway.call('/v1/chat', account.key, ask(100, true)))
  await reading.until('w2 ')
  return { gate, backend, redis, yaml, gateway, account, reading }
}

t.test(
  'Redis is killed in mid-stream: the stream ends well, and is charged once when Redis is back',
  async (t) => {
    const { gate, backend, redis, gateway, account, reading } = await midStream(t)

    await redis.kill()
    // If each request waited for the time-out of a command, this would take minutes.
    const refusing = async () => {
      for (let i = 0; i < 50; i++) {
        const refused = await gateway.call('/v1/chat', account.key, ask(100, true))
        const { status, headers } = refused
        const isRight = status === 503 && Number(headers.get('retry-after')) >= 1
        if (!isRight || (await codeOf(refused)) !== 'ledger_unavailable') t.fail(`${status}`)
      }
    }
    await soon(refusing())
    const balance = await gateway.call('/api/billing/balance', account.key)
    t.equal(balance.status, 503)
    t.equal(await codeOf(balance), 'ledger_unavailable')
    t.equal((await fetch(`${gateway.adminUrl}/readyz`)).status, 503)
    t.equal((await fetch(`${gateway.adminUrl}/healthz`)).status, 200)
    t.equal(backend.requests.length, 1, 'no refused request was sent on')

    gate.open()
    const text = await reading.end()
    t.match(text, /w7 /)
    t.match(text, /data: \[DONE\]\n\n$/)

    await redis.restart()
    await until(async () => (await balanceNow(gateway, account))?.reserved === 0)
    t.match(await balanceOf(gateway, account), { balance: 1000 - 8, reserved: 0 })
    const [, ...charges] = await transactionsOf(gateway, account)
    t.same(
      charges.map(({ type, amount, estimated }) => [type, amount, estimated]),
      [['charge', -8, false]],
    )
    t.equal((await fetch(`${gateway.adminUrl}/readyz`)).status, 200)
    const again = await gateway.call('/v1/chat', account.key, ask(100, false))
    t.equal(again.status, 200, 'and work goes on')
    t.same(await differencesOf(gateway), [])
  },
)

t.test(
  "a settlement that waits on disk survives its gateway's end, and is charged once by the next",
  async (t) => {
    const { gate, redis, yaml, gateway, account, reading } = await midStream(t)
    await redis.kill()
    await until(async () => (await fetch(`${gateway.adminUrl}/readyz`)).status === 503)
    gate.open()
    t.match(await reading.end(), /data: \[DONE\]\n\n$/)
    const spool = join(gateway.dataDir, 'spool')
    await until(async () => (await textsIn(spool)).includes('"kind":"settle"'))
    await gateway.kill()

    await redis.restart()
    const heir = await spawnGateway(t, { redis, yaml, dataDir: gateway.dataDir })
    await until(async () => (await balanceNow(heir, account))?.reserved === 0)
    t.match(await balanceOf(heir, account), { balance: 1000 - 8, reserved: 0 })
    t.equal((await transactionsOf(heir, account)).length, 2)
    t.same(await differencesOf(heir), [])
  },
)

t.test(
  'Redis forgets its last 200 commands: two gateways restore everything that they acknowledged',
  async (t) => {
    const backend = await startBackend(t, chat())
    const redis = await startRedis(t, { args: durable })
    const yaml = outputOnly(backend.url)
    const gateways = [
      await spawnGateway(t, { redis, yaml }),
      await spawnGateway(t, { redis, yaml }),
    ] as const
    const account = await gateways[0].account(1000)
    for (let i = 0; i < 40; i++) {
      const gateway = gateways[i % 2] ?? gateways[0]
      const answer = await gateway.call('/v1/chat', account.key, ask(1 + (i % 5), i % 3 === 0))
      t.equal(answer.status, 200)
      await answer.text()
      if (i % 10 !== 9) continue
      const topup = await gateway.admin('POST', `accounts/${account.id}/topup`, { amount: 100 + i })
      t.equal(topup.status, 200)
    }
    const before = await balanceOf(gateways[0], account)
    const journal = await transactionsOf(gateways[0], account)
    t.equal(before.granted, 1000 + 109 + 119 + 129 + 139)
    t.equal(before.spent, backend.served.completion)

    await redis.kill()
    t.ok((await cutOff(redis.dir, 200)) >= 200)
    // The check uses a copy, since the gateways send again as soon as the original answers.
    const copy = await tempDir(t)
    await cp(join(redis.dir, 'appendonlydir'), join(copy, 'appendonlydir'), { recursive: true })
    const looker = await connectLink(t, (await startRedis(t, { args: durable, dir: copy })).socket)
    const sums = await looker.client.hmget(keys.account(refOf(account)), 'granted', 'spent')
    t.ok(Number(sums[0]) < before.granted, 'acknowledged top-ups are forgotten')
    t.ok(Number(sums[1]) < before.spent, 'and so are charges')

    await redis.restart()
    await until(async () => {
      const now = await balanceNow(gateways[1], account)
      return now?.granted === before.granted && now.spent === before.spent
    })
    t.match(await balanceOf(gateways[0], account), { balance: before.balance, reserved: 0 })
    const amounts = (list: typeof journal) => list.map(({ amount }) => amount).toSorted()
    t.same(amounts(await transactionsOf(gateways[0], account)), amounts(journal))
    t.same(await differencesOf(gateways[0]), [])
  },
)
