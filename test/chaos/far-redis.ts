// A Redis that is far away: how many round trips to it a request waits for. The delay of a round trip is much longer
// than the work itself, so that a busy machine does not change the count.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { startDelayProxy } from '../fixtures/delay-proxy.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import { ask, balanceOf, differencesOf, outputOnly } from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const delayMs = 500

/** A gateway whose replies from Redis are late after `far` was called. */
async function farAway(t: Test) {
  const backend = await startBackend(t, chat())
  const redis = await startRedis(t)
  const proxy = await startDelayProxy(t, redis.socket)
  const yaml = outputOnly(backend.url)
  const gateway = await spawnGateway(t, { redis, redisUrl: `unix://${proxy.socket}`, yaml })
  const account = await gateway.account(1000)
  const warm = await gateway.call('/v1/chat', account.key, ask(5, true))
  await warm.text()
  await until(async () => (await balanceOf(gateway, account)).reserved === 0)
  /** When the backend was reached and when the answer was complete, in round trips. */
  const time = async (body: unknown) => {
    const startedAt = performance.now()
    const flights = () => Math.floor((performance.now() - startedAt) / delayMs)
    const reached = backend.request(backend.requests.length).then(flights)
    const answer = await gateway.call('/v1/chat', account.key, body)
    await answer.text()
    return { status: answer.status, reached: await reached, answered: flights() }
  }
  /** The best of five tries, because other work of the machine can only make it slower. */
  const best = async (body: unknown, flights: number) => {
    for (let count = 1; ; count++) {
      const seen = await time(body)
      if (count === 5 || (seen.reached <= flights && seen.answered <= flights)) return seen
    }
  }
  return { backend, gateway, account, proxy, best }
}

for (const isStream of [true, false]) {
  const what = isStream ? 'a stream' : 'a whole answer'
  t.test(
    `${what} waits for one round trip to Redis before the backend, and for none after it`,
    async (t) => {
      const { backend, gateway, account, proxy, best } = await farAway(t)
      proxy.setDelay(delayMs)
      t.same(await best(ask(5, isStream), 1), { status: 200, reached: 1, answered: 1 })
      proxy.setDelay(0)
      t.match(await balanceOf(gateway, account), {
        balance: 1000 - 5 * backend.requests.length,
        reserved: 0,
      })
      t.same(await differencesOf(gateway), [])
    },
  )
}

t.test('a body over 4 KiB waits for one round trip more: its key is checked first', async (t) => {
  const { gateway, proxy, best } = await farAway(t)
  proxy.setDelay(delayMs)
  const content = 'x'.repeat(5000)
  const body = { ...ask(5, true), messages: [{ role: 'user', content }] }
  t.same(await best(body, 2), { status: 200, reached: 2, answered: 2 })
  proxy.setDelay(0)
  t.same(await differencesOf(gateway), [])
})
