// Targets that are down: who waits for them, and how long; and that they come back.

import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { Script } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { behind, failing, raw } from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf } from '../fixtures/gateway.ts'
import { stoppedClock } from '../fixtures/hand-clock.ts'
import { hello, targetsPath } from '../fixtures/targets-path.ts'
import { until } from '../fixtures/until.ts'

const short = 'breaker: { failures: 3, cool_down: 300ms }'
const long = 'breaker: { failures: 3, cool_down: 1h }'

t.test('a target that is down is left alone, until the probe finds it well', async (t) => {
  const { backends, ask, asked, states, up } = await targetsPath(t, { model: short })
  const clock = stoppedClock(t)
  backends[0]?.on(failing(503))
  for (let i = 0; i < 10; i++) t.equal((await ask()).status, 200)
  t.strictSame(asked(), [3, 10])
  t.strictSame(await up(), [0, 1])
  clock.leap(300)
  await until(async () => (await states())[0] === 'half_open')
  // The probe fails: another cool-down.
  for (let i = 0; i < 5; i++) t.equal((await ask()).status, 200)
  t.strictSame(asked(), [4, 15])
  t.strictSame(await states(), ['open', 'up'])
  backends[0]?.on(chat())
  clock.leap(300)
  await until(async () => (await states())[0] === 'half_open')
  for (let i = 0; i < 5; i++) await (await ask()).text()
  t.strictSame(asked(), [9, 15])
  t.strictSame(await states(), ['up', 'up'])
  t.strictSame(await up(), [1, 1])
})

t.test('where all targets are down, everyone is told at once, and when to come back', async (t) => {
  const { backends, ask, asked, states, spent } = await targetsPath(t, {
    model: long,
    yaml: 'plans: { default: { concurrency: 100 } }',
  })
  for (const backend of backends) backend.on(failing(503))
  for (let i = 0; i < 3; i++) await (await ask()).text()
  t.strictSame(await states(), ['open', 'open'])
  const before = asked()[0] ?? 0
  const answers = Array.from({ length: 40 }, (_, i) => ask({ ...hello, stream: i % 2 === 0 }))
  for (const answer of await Promise.all(answers)) {
    t.equal(answer.status, 503)
    t.equal(answer.headers.get('retry-after'), '1')
    t.equal(await codeOf(answer), 'upstream_unavailable')
  }
  t.ok((asked()[0] ?? 0) - before < 20, 'most of them ask nobody')
  t.equal(await spent(), 0)
})

t.test('of many requests after the cool-down, one is the probe', async (t) => {
  const { backends, stream, asked, states } = await targetsPath(t, { count: 1, model: short })
  const clock = stoppedClock(t)
  backends[0]?.on(failing(503))
  for (let i = 0; i < 3; i++) await (await stream()).text()
  clock.leap(300)
  await until(async () => (await states())[0] === 'half_open')
  const gate = new Gate()
  backends[0]?.on(chat({ gate, chunks: 2 }))
  const probe = stream()
  await until(() => asked()[0] === 4)
  const others = await Promise.all(Array.from({ length: 10 }, () => stream()))
  for (const answer of others) t.equal(answer.status, 503)
  t.strictSame(asked(), [4])
  gate.next(2)
  t.equal((await probe).status, 200)
  // The first content closes it, not the end of the answer.
  backends[0]?.on(chat())
  t.equal((await stream()).status, 200)
  gate.open()
})

t.test("a customer's own failures shut a target for nobody", async (t) => {
  const { backends, gate, ask, asked, states } = await targetsPath(t, { model: long })
  const poison: Script = (call) =>
    (JSON.stringify(call.json).includes('poison') ? failing(500) : chat())(call)
  for (const backend of backends) backend.on(poison)
  const poisoned = { ...hello, messages: [{ role: 'user', content: 'poison' }] }
  for (let i = 0; i < 10; i++) t.equal((await ask(poisoned)).status, 502)
  t.strictSame(asked(), [10, 10])
  t.strictSame(await states(), ['up', 'up'])
  const other = await gate.account(1_000_000)
  t.equal((await gate.call('/v1/chat', other.key, hello)).status, 200)
})

t.test("a customer's own failures keep no other customer from the probe", async (t) => {
  const { backends, gate, ask, states } = await targetsPath(t, { count: 1, model: short })
  const clock = stoppedClock(t)
  const other = await gate.account(1_000_000)
  backends[0]?.on(failing(503))
  for (let i = 0; i < 3; i++) await (await ask()).text()
  clock.leap(300)
  await until(async () => (await states())[0] === 'half_open')
  const door = new Gate()
  const poison = behind(door, failing(500))
  backends[0]?.on((call) => (JSON.stringify(call.json).includes('poison') ? poison : chat())(call))
  const poisoned = { ...hello, messages: [{ role: 'user', content: 'poison' }] }
  door.next(1)
  t.equal((await ask(poisoned)).status, 502)
  const probe = ask(poisoned)
  await backends[0]?.request(4)
  t.equal((await gate.call('/v1/chat', other.key, hello)).status, 200)
  door.open()
  t.equal((await probe).status, 502)
  t.strictSame(await states(), ['up'])
})

t.test('a failure counts for nothing when another target refuses the request', async (t) => {
  const { backends, ask, asked, states } = await targetsPath(t, { model: long })
  backends[0]?.on(failing(500))
  backends[1]?.on(failing(400))
  for (let i = 0; i < 5; i++) t.equal((await ask()).status, 400)
  t.strictSame(asked(), [5, 5])
  t.strictSame(await states(), ['up', 'up'])
})

t.test('429 and the faults of requests are no failures', async (t) => {
  const { backends, ask, asked } = await targetsPath(t, { count: 1, model: long })
  const body = { error: { message: 'no' } }
  for (const status of [429, 400, 404, 413, 422, 401, 402]) {
    backends[0]?.on(failing(status, { body }))
    for (let i = 0; i < 5; i++) await (await ask()).text()
  }
  t.strictSame(asked(), [35])
})

t.test('a server that loads its model has not failed', async (t) => {
  const llama = await readFile(new URL('../fixtures/captures/llama-loading.http', import.meta.url))
  const body = { error: 'Model m is currently loading', estimated_time: 20 }
  for (const script of [raw(llama), failing(503, { body })]) {
    const { backends, ask, asked, states } = await targetsPath(t, { model: long })
    backends[0]?.on(script)
    t.equal((await ask()).status, 200)
    t.strictSame(await states(), ['loading', 'up'])
    for (let i = 0; i < 5; i++) t.equal((await ask()).status, 200)
    t.ok((asked()[0] ?? 6) < 6, 'it is asked once a second, not each time')
    await until(async () => (await states())[0] === 'up')
    backends[0]?.on(chat())
    const before = asked()[0] ?? 0
    t.equal((await ask()).status, 200)
    t.equal(asked()[0], before + 1)
  }
})
