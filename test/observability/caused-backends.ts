// Alerts on backends and strangers: each is caused on a real gateway, and fires from what its /metrics said before and
// after.

import t from 'tap'
import type { Test } from 'tap'
import { chat } from '../fixtures/backend-model.ts'
import { behind, failing, silent } from '../fixtures/backend-scripts.ts'
import type { Script } from '../fixtures/backend.ts'
import { Gate } from '../fixtures/gate.ts'
import { send } from '../fixtures/gateway.ts'
import { leapingClock } from '../fixtures/hand-clock.ts'
import { metricOf } from '../fixtures/metric.ts'
import { ensurePrometheus } from '../fixtures/prometheus.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { fires, scrape } from '../fixtures/scrapes.ts'
import type { Scrape } from '../fixtures/scrapes.ts'
import { hello, targetsPath } from '../fixtures/targets-path.ts'
import type { TargetsPathOptions } from '../fixtures/targets-path.ts'
import { until } from '../fixtures/until.ts'

await ensurePrometheus()

const nine = Array.from({ length: 9 })

/** A gateway whose model has answered; the scrape before. Its first backend then does as the script says. */
async function world(t: Test, script: Script, options: TargetsPathOptions = {}) {
  const path = await targetsPath(t, { count: 1, ...options })
  const askAll = async () => {
    const answers = await Promise.all(nine.map(() => path.stream()))
    for (const answer of answers) await answer.text()
  }
  await askAll()
  const before = await scrape(path.gate)
  path.backends[0]?.on(script)
  return { ...path, askAll, before }
}

const breaks = { model: 'breaker: { failures: 3, cool_down: 60s }' }
const bears = { model: 'breaker: { failures: 1000 }' }

t.test('TollgateModelDown: nothing listens at its only target', async (t) => {
  const { gate, askAll, before, backends } = await world(t, chat(), breaks)
  await backends[0]?.stop()
  await askAll()
  await fires(t, 'TollgateModelDown', { before, after: [await scrape(gate)], within: 3 })
})

t.test('TollgateTargetDown: one of two fails', async (t) => {
  const { gate, askAll, before } = await world(t, failing(500), { ...breaks, count: 2 })
  await askAll()
  await fires(t, 'TollgateTargetDown', { before, after: [await scrape(gate)], within: 11 })
})

t.test('TollgateTargetFails: one of two fails, and is asked again', async (t) => {
  const { gate, askAll, before } = await world(t, failing(500), { ...bears, count: 2 })
  await askAll()
  const after = [await scrape(gate)]
  await fires(t, 'TollgateTargetFails', { before, after, goesOn: true, within: 16 })
})

t.test('TollgateClientsGiveUp: a backend says nothing, and its clients leave', async (t) => {
  const { gate, before, backends, leaving } = await world(t, silent)
  const asked = nine.map(() => leaving({ ...hello, stream: true }))
  await backends[0]?.request(2 * nine.length - 1)
  for (const { leave } of asked) leave()
  await until(async () => (await metricOf(gate, 'tollgate_upstream_aborted_total')) === nine.length)
  const after = [await scrape(gate)]
  await fires(t, 'TollgateClientsGiveUp', { before, after, goesOn: true, within: 16 })
})

t.test('TollgateBackendRateLimited: one of two answers 429, and no client notices', async (t) => {
  const { gate, askAll, before } = await world(t, failing(429), { count: 2 })
  await askAll()
  t.notOk(await metricOf(gate, 'tollgate_rejections_total'))
  const after = [await scrape(gate)]
  await fires(t, 'TollgateBackendRateLimited', { before, after, goesOn: true, within: 16 })
})

t.test('TollgateBackendKeyRefused: a backend answers 401', async (t) => {
  const { gate, askAll, before } = await world(t, failing(401), bears)
  await askAll()
  const after = [await scrape(gate)]
  for (const goesOn of [true, false]) {
    await fires(t, 'TollgateBackendKeyRefused', { before, after, goesOn, within: 4 })
  }
})

t.test('TollgateQueueWaits: the only place is taken', async (t) => {
  const door = new Gate()
  t.teardown(() => door.open())
  const model = 'max_concurrency: 1, queue: { length: 100, wait: 60s }'
  const { gate, askAll, before } = await world(t, behind(door, chat()), { model })
  const asked = askAll()
  await until(async () => (await metricOf(gate, 'tollgate_target_queue')) === nine.length - 1)
  await fires(t, 'TollgateQueueWaits', { before, after: [await scrape(gate)], within: 16 })
  door.open()
  await asked
})

t.test('TollgateFirstTokenLate: a backend thinks for 40 s', async (t) => {
  const door = new Gate()
  const clock = leapingClock(t)
  const { gate, askAll, before, backends } = await world(t, behind(door, chat()))
  const asked = askAll()
  await backends[0]?.request(2 * nine.length - 1)
  clock.leap(40_000)
  door.open()
  await asked
  const after = [await scrape(gate)]
  await fires(t, 'TollgateFirstTokenLate', { before, after, goesOn: true, within: 21 })
})

t.test('TollgateOverloaded: bodies that never end take all their memory', async (t) => {
  const mebibyte = 2 ** 20
  const yaml = 'limits: { bodies: 16MiB, json_v1: 4MiB, json_message: 4MiB }'
  const { gate, key, before } = await world(t, chat(), { yaml })
  const port = Number(new URL(gate.url).port)
  for (let i = 0; i < 16; i++) {
    const client = await rawClient(t, port)
    client.send(
      `POST /v1/chat HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${4 * mebibyte}\r\n\r\n`,
      'x'.repeat(4 * mebibyte - 1),
    )
  }
  const refused = () => metricOf(gate, 'tollgate_rejections_total{code="overloaded"}')
  await until(async () => (await refused()) > 6)
  const after = [await scrape(gate)]
  await fires(t, 'TollgateOverloaded', { before, after, goesOn: true, within: 16 })
})

t.test('TollgateKeysGuessed: one address sends keys that are not valid', async (t) => {
  const clock = leapingClock(t)
  const { gate, before } = await world(t, chat())
  const after: Scrape[] = []
  for (const _minute of [1, 2, 3]) {
    const start = performance.now()
    for (let i = 0; i < 100; i++) await (await gate.call('/v1/models', `guess ${i}`)).text()
    after.push(await scrape(gate))
    clock.leap(60_000 - (performance.now() - start))
  }
  await fires(t, 'TollgateKeysGuessed', { before, after, goesOn: true, within: 23 })
})

t.test('TollgateAdminTokenGuessed: one address sends tokens that are not valid', async (t) => {
  const { gate, before } = await world(t, chat())
  for (let i = 0; i < 30; i++) {
    await (await send(`${gate.adminUrl}/admin/accounts`, { token: `guess${i}` })).text()
  }
  const after = [await scrape(gate)]
  await fires(t, 'TollgateAdminTokenGuessed', { before, after, within: 2 })
})
