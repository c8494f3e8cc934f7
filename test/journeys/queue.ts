// Targets with a bounded number of requests: who waits, for how long, and that no seat is lost, however a request ends.

import t from 'tap'
import type { Test } from 'tap'
import { chat, endless } from '../fixtures/backend-model.ts'
import { behind, failing, reset, silent, sse } from '../fixtures/backend-scripts.ts'
import type { Script } from '../fixtures/backend.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf } from '../fixtures/gateway.ts'
import { chatOf, messageIdOf, noLimits } from '../fixtures/session-chat.ts'
import { hello, targetsPath } from '../fixtures/targets-path.ts'
import type { TargetsPathOptions } from '../fixtures/targets-path.ts'
import { soon, until } from '../fixtures/until.ts'

async function world(t: Test, options: TargetsPathOptions & { readonly gated?: boolean } = {}) {
  const { yaml = '', gated = true } = options
  const path = await targetsPath(t, { count: 1, ...options, yaml: `${noLimits}\n${yaml}` })
  const doors = path.backends.map((backend) => {
    const door = new Gate()
    if (gated) backend.on(behind(door, chat({ chunks: 2 })))
    return door
  })
  const waiting = async () =>
    Number(/target_queue\{model="m"\} (\d+)/.exec(await path.metrics())?.[1])
  const waits = (count: number) => until(async () => (await waiting()) === count)
  const openDoors = () => {
    for (const door of doors) door.open()
  }
  return { ...path, openDoors, waiting, waits }
}

const says = (content: string) => ({ model: 'm', messages: [{ role: 'user', content }] })

t.test('an account with 500 requests makes one with 2 wait for its share only', async (t) => {
  const { backends, gate, key, waits, openDoors } = await world(t, {
    tokens: 100_000_000,
    model: 'max_concurrency: 2, queue: { length: 1000, wait: 60s }',
  })
  const other = await gate.account(1_000_000)
  const many = Array.from({ length: 500 }, () => gate.call('/v1/chat', key, says('many')))
  await waits(498)
  const few = [1, 2].map(() => gate.call('/v1/chat', other.key, says('few')))
  await waits(500)
  openDoors()
  for (const answer of await Promise.all([...many, ...few])) t.equal(answer.status, 200)
  const order = backends[0]?.requests.map(({ body }) => body.includes('few')) ?? []
  t.equal(order.length, 502)
  // Two were under way, and then the accounts take turns.
  const places = [order.indexOf(true), order.lastIndexOf(true)]
  t.ok((places[0] ?? 99) <= 3 && (places[1] ?? 99) <= 5, `${places.join()}`)
})

t.test('no more than max_concurrency are asked at once, of a target and of a model', async (t) => {
  for (const [keys, model, most] of [
    ['max_concurrency: 2', '', [2, 2]],
    ['', 'max_concurrency: 3', [3, 3]],
  ] as const) {
    let under = 0
    let seen = 0
    const { backends, ask, underWay } = await world(t, {
      count: 2,
      gated: false,
      keys: () => `weight: 1${keys && `, ${keys}`}`,
      model,
    })
    const counted: Script = async (call) => {
      seen = Math.max(seen, ++under)
      call.res.once('close', () => under--)
      await chat()(call)
    }
    for (const backend of backends) backend.on(counted)
    const answers = await Promise.all(Array.from({ length: 40 }, () => ask()))
    for (const answer of answers) t.equal(answer.status, 200)
    await Promise.all(answers.map((answer) => answer.text()))
    const bound = keys ? most[0] + most[1] : most[0]
    t.ok(seen <= bound, `${seen}`)
    await until(async () => (await underWay()).every((count) => count === 0))
  }
})

t.test('a full line: its largest account gives way, and learns when to come back', async (t) => {
  const { gate, ask, waits, openDoors } = await world(t, {
    model: 'max_concurrency: 1, queue: { length: 2, wait: 30s }',
  })
  const other = await gate.account(1_000_000)
  const running = ask()
  await until(() => gate.gateway.ledger.holdsOpen === 1)
  const first = ask()
  await waits(1)
  const second = ask()
  await waits(2)
  const third = gate.call('/v1/chat', other.key, hello)
  const refused = await second
  t.equal(refused.status, 503)
  t.equal(refused.headers.get('retry-after'), '30')
  t.equal(await codeOf(refused), 'upstream_unavailable')
  t.equal((await ask()).status, 503)
  openDoors()
  for (const answer of [running, first, third]) t.equal((await answer).status, 200)
})

t.test('a wait that is too long is 503, and costs nothing', async (t) => {
  const { backends, stream, asked, spent, waiting, openDoors } = await world(t, {
    model: 'max_concurrency: 1, queue: { wait: 100ms }',
  })
  const running = stream()
  await backends[0]?.request(0)
  const answer = await stream()
  t.equal(answer.status, 503)
  t.ok(Number(answer.headers.get('retry-after')) >= 1)
  t.equal(await codeOf(answer), 'upstream_unavailable')
  t.strictSame([asked(), await waiting()], [[1], 0])
  openDoors()
  await (await running).text()
  const { prompt = 0, completion = 0 } = backends[0]?.served ?? {}
  t.equal(await spent(), prompt + completion)
})

t.test('who leaves while it waits pays nothing, and nobody is asked for it', async (t) => {
  for (const streams of [true, false]) {
    const { backends, leaving, stream, asked, spent, waits, line, openDoors } = await world(t, {
      model: 'max_concurrency: 1, queue: { wait: 30s }',
    })
    const running = stream()
    await backends[0]?.request(0)
    const { leave } = leaving({ ...hello, stream: streams })
    await waits(1)
    leave()
    await waits(0)
    const told = await line()
    t.match(told, { status: 499, client_left: true, cost: 0 })
    t.notOk('code' in told || 'err' in told, 'to leave is no failure')
    openDoors()
    await (await running).text()
    const { prompt = 0, completion = 0 } = backends[0]?.served ?? {}
    t.equal(await spent(), prompt + completion)
    t.strictSame(asked(), [1])
  }
})

t.test('a wait longer than first_byte is 200 with heartbeats, and then the answer', async (t) => {
  const { backends, stream, openDoors } = await world(t, {
    yaml: 'limits: { first_byte: 50ms, heartbeat: 20ms }',
    model: 'max_concurrency: 1, queue: { wait: 30s }',
  })
  const running = stream()
  await backends[0]?.request(0)
  const answer = await stream()
  t.equal(answer.status, 200)
  openDoors()
  t.match(await answer.text(), /^(:\n)*data: .*w0 .*\[DONE\]\n\n$/s)
  await (await running).text()
})

t.test('a target that fails leaves its seat, also where it is the only one', async (t) => {
  const { backends, ask, asked, underWay } = await world(t, {
    count: 2,
    gated: false,
    model: 'max_concurrency: 1, queue: { wait: 30s }, breaker: { failures: 1000 }',
  })
  // A stream that has failed is not ended by its backend.
  const failed = 'data: {"error":{"message":"x"}}\n\n'
  backends[0]?.on((call) => sse([failed], { end: call.json['stream'] !== true })(call))
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => ask({ ...hello, stream: i % 2 === 0 })),
  )
  for (const answer of answers) await answer.text()
  for (const answer of answers) t.equal(answer.status, 200)
  t.strictSame(await underWay(), [0, 0])
  t.ok((asked()[0] ?? 0) >= 20)
})

t.test('of those that wait, a target that fails its probe gets no second one', async (t) => {
  const { backends, stream, asked, states, waits, openDoors } = await world(t, {
    count: 2,
    keys: (i) => (i === 0 ? 'priority: 1' : 'priority: 2, max_concurrency: 1'),
    model: 'queue: { wait: 30s }, breaker: { failures: 1, cool_down: 30s }',
  })
  backends[0]?.on(failing(503))
  const waiting = [stream()]
  await backends[1]?.request(0)
  for (let i = 0; i < 10; i++) waiting.push(stream())
  await waits(10)
  await until(async () => (await states())[0] === 'half_open')
  // One that comes sends the first of those that wait.
  waiting.push(stream())
  await until(async () => (await states())[0] === 'open')
  t.strictSame(asked(), [2, 1])
  openDoors()
  for (const answer of waiting) await (await answer).text()
})

t.test(
  'the next attempt has the room of the one that failed, before those that wait',
  async (t) => {
    for (const status of [500, 503]) {
      const { backends, stream, asked, waits, openDoors } = await world(t, {
        count: 2,
        model: 'max_concurrency: 1, queue: { wait: 30s }',
      })
      const door = new Gate()
      backends[0]?.on(behind(door, failing(status)))
      const first = stream()
      await backends[0]?.request(0)
      const second = stream()
      await waits(1)
      door.next(1)
      await until(() => asked().reduce((sum, one) => sum + one) === 2)
      t.strictSame(asked(), [1, 1])
      door.open()
      openDoors()
      for (const answer of [first, second]) t.equal((await answer).status, 200)
    }
  },
)

const word = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'

const endings: Readonly<Record<string, Script>> = {
  complete: chat(),
  refused: failing(400),
  failed: failing(500),
  reset,
  'cut after content': sse([word], { end: 'cut' }),
  'an error event': sse([word, 'data: {"error":{"message":"x"}}\n\n']),
  'a time-out': silent,
  'silence after content': sse([word], { end: false }),
  'a runaway': endless(),
}

t.test('however a request ends, its seat is given back once', async (t) => {
  const { backends, ask, leaving, underWay } = await world(t, {
    gated: false,
    yaml: 'limits: { answer: 1MiB }',
    model:
      'max_concurrency: 2, timeouts: { first_token: 200ms, idle: 200ms, total: 1s }, breaker: { failures: 1000 }, on_leave: abort',
  })
  for (const [name, script] of Object.entries(endings)) {
    for (const stream of [true, false]) {
      backends[0]?.on(script)
      const body = { ...hello, max_tokens: 5, stream }
      const { answer, leave } = leaving(body)
      const others = await Promise.all([ask(body), ask(body)])
      leave()
      await Promise.all(others.map((other) => soon(other.text().catch(() => ''))))
      await answer.catch(() => undefined)
      await until(async () => (await underWay())[0] === 0)
      t.pass(`${name}, stream: ${stream}`)
    }
  }
  const gate = new Gate()
  backends[0]?.on(behind(gate, chat()))
  const before = backends[0]?.requests.length ?? 0
  const three = [ask(), ask(), ask()]
  await until(() => backends[0]?.requests.length === before + 2)
  gate.next(1)
  await until(() => backends[0]?.requests.length === before + 3)
  gate.open()
  for (const answer of three) t.equal((await answer).status, 200)
})

t.test("a session's message that waits can be cancelled, and costs nothing", async (t) => {
  const { backends, gate, id, key, stream, asked, waits, openDoors } = await world(t, {
    yaml: 'limits: { session_first_event: 50ms }',
    model: 'max_concurrency: 1, queue: { wait: 30s }, on_leave: finish',
  })
  const talk = chatOf(t, gate, { id, key })
  const session = await talk.session({ model: 'm' })
  const running = stream()
  await backends[0]?.request(0)
  const sent = await talk.send(session)
  t.equal(sent.status, 200)
  await waits(1)
  const message = messageIdOf(sent)
  await talk.at(`/${session}/messages/${message}/cancel`, { method: 'POST' })
  await waits(0)
  await until(async () => (await talk.message(session, message)).status === 'cancelled')
  t.notOk((await talk.message(session, message)).cost)
  t.strictSame(asked(), [1])
  openDoors()
  await (await running).text()
})

t.test('a drain ends those that wait', async (t) => {
  const { backends, gate, stream } = await world(t, {
    yaml: 'drain: 50ms',
    model: 'max_concurrency: 1, queue: { wait: 60s }',
  })
  const running = stream()
  await backends[0]?.request(0)
  const waiting = stream()
  await until(() => gate.gateway.ledger.holdsOpen === 2)
  const closing = gate.close()
  for (const answer of await Promise.all([running, waiting])) {
    t.equal(await codeOf(answer), 'server_draining')
  }
  await closing
})
