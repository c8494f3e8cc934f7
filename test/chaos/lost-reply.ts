// A connection to Redis that breaks at the worst moment: the command ran, and its reply never came.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { startDelayProxy } from '../fixtures/delay-proxy.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf, spawnGateway } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import {
  Reading,
  ask,
  balanceNow,
  balanceOf,
  differencesOf,
  openHold,
  outputOnly,
  transactionsOf,
} from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

/** A gateway behind a proxy that can lose replies; the test itself reads Redis without the proxy. */
async function start(t: Test, gate?: Gate) {
  const backend = await startBackend(t, chat({ chunks: 6, ...(gate ? { gate } : {}) }))
  const redis = await startRedis(t)
  const proxy = await startDelayProxy(t, redis.socket)
  const yaml = outputOnly(backend.url)
  const gateway = await spawnGateway(t, { redis, redisUrl: `unix://${proxy.socket}`, yaml })
  const account = await gateway.account(1000)
  const link = await connectLink(t, redis.socket)
  return { backend, gateway, proxy, account, link }
}

t.test(
  'a hold whose reply was lost is given back: the backend gets no request, nothing is charged',
  async (t) => {
    const { backend, gateway, proxy, account, link } = await start(t)
    proxy.stall()
    const answer = gateway.call('/v1/chat', account.key, ask(100, true))
    await until(async () => (await openHold(link, account)).id !== '')
    proxy.cut()
    proxy.resume()
    t.equal(await codeOf(await answer), 'ledger_unavailable')
    await until(async () => (await balanceNow(gateway, account))?.reserved === 0)
    t.match(await balanceOf(gateway, account), { balance: 1000, reserved: 0 })
    t.equal(backend.requests.length, 0)
    t.equal((await transactionsOf(gateway, account)).length, 1)
    t.same(await differencesOf(gateway), [])
  },
)

t.test('a settlement whose reply was lost is sent again, and charged once', async (t) => {
  const gate = new Gate()
  const { backend, gateway, proxy, account, link } = await start(t, gate)
  gate.next(3)
  const reading = new Reading(await gateway.call('/v1/chat', account.key, ask(100, true)))
  await reading.until('w1 ')
  proxy.stall()
  gate.open()
  t.match(await reading.end(), /data: \[DONE\]\n\n$/, 'the answer does not wait for it')
  await until(async () => (await openHold(link, account)).id === '')
  proxy.cut()
  proxy.resume()
  await until(async () => (await balanceNow(gateway, account))?.reserved === 0)
  t.match(await balanceOf(gateway, account), { balance: 1000 - 6, reserved: 0 })
  t.equal(backend.served.completion, 6)
  t.equal((await transactionsOf(gateway, account)).length, 2)
  t.same(await differencesOf(gateway), [])
})
