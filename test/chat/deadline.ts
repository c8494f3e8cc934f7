// The time limits of a backend request, seen from the client: each ends a request that would never end.

import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { Deadline, untilQuiet } from '../../src/chat/deadline.ts'
import { GatewayError } from '../../src/errors.ts'
import { ClientLeft } from '../../src/http/body.ts'
import { modelOf } from '../fixtures/target.ts'
import { Gate } from '../fixtures/gate.ts'
import { pause, silent, sse } from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { codeOf } from '../fixtures/gateway.ts'
import { standStill } from '../fixtures/stand-still.ts'

const word = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
const role = 'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'

for (const [clock, stream] of [
  ['first_token', true],
  ['total', true],
  ['total', false],
] as const) {
  t.test(`what never comes is 504 after ${clock}, for nothing (stream: ${stream})`, async (t) => {
    const { backend, ask, spent } = await chatPath(t, { model: `timeouts: { ${clock}: 100ms }` })
    backend.on(silent)
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const asked = ask({ ...hi, stream })
    const { closed } = await backend.request(0)
    mock.timers.tick(100)
    const answer = await asked
    t.equal(answer.status, 504)
    t.equal(await codeOf(answer), 'upstream_timeout')
    t.equal(await spent(), 0)
    t.ok(await closed)
  })
}

t.test('a role is no content: a first token that never comes is 504', async (t) => {
  const { backend, ask, spent } = await chatPath(t, { model: 'timeouts: { first_token: 100ms }' })
  backend.on(sse([role], { end: false }))
  t.equal((await ask({ ...hi, stream: true })).status, 504)
  t.equal(await spent(), 0)
  for (const { closed } of backend.requests) t.ok(await closed)
})

t.test('a role and empty chunks, however many, are not a first token', async (t) => {
  const { backend, stream, spent } = await chatPath(t, {
    model: 'timeouts: { first_token: 150ms, idle: 5s }',
  })
  const empty = word.replace('"a"', '""')
  // Two seconds of empty chunks, then an answer.
  backend.on(async ({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (let i = 0; i < 100 && !res.destroyed; i++) {
      res.write(i % 2 ? role : empty)
      await pause(20)
    }
    res.end(`${word}${word.replace('{"content":"a"}', '{},"finish_reason":"stop"')}`)
  })
  const answer = await stream()
  t.equal(answer.status, 504)
  t.equal(await codeOf(answer), 'upstream_timeout')
  t.equal(await spent(), 0)
})

t.test('what came while the gateway stood still has come in time', async (t) => {
  const { backend, stream } = await chatPath(t, {
    model: 'timeouts: { first_token: 500ms, idle: 500ms }',
  })
  const last = word.replace('{"content":"a"}', '{},"finish_reason":"stop"')
  const pieces = [word, word, `${last}data: [DONE]\n\n`]
  backend.on(({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    const next = () => {
      res.write(pieces.shift() ?? '')
      standStill(600)
      if (pieces.length === 0) res.end()
      else setImmediate(() => setImmediate(next))
    }
    next()
  })
  const answer = await stream()
  t.equal(answer.status, 200)
  t.match(await answer.text(), /\[DONE\]\n\n$/)
})

t.test('a time-out says whether to try again: not for routes that generate', async (t) => {
  const { backend, ask } = await chatPath(t, {
    model:
      'timeouts: { first_token: 100ms, total: 200ms }, endpoints: [chat, completions, embeddings]',
  })
  backend.on(silent)
  const retry = async (path: string, body: object) => {
    const answer = await ask({ model: 'm', ...body }, path)
    t.equal(answer.status, 504, path)
    return answer.headers.get('x-should-retry')
  }
  for (const stream of [false, true]) {
    t.equal(await retry('/v1/chat', { ...hi, stream }), 'false')
    t.equal(await retry('/v1/completions', { prompt: 'Hi', stream }), 'false')
  }
  t.equal(await retry('/v1/embeddings', { input: 'Hi' }), null)
})

t.test('a pause between chunks ends a stream with an error, despite comments', async (t) => {
  const { backend, stream } = await chatPath(t, { model: 'timeouts: { idle: 200ms }' })
  backend.on(({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(word)
    const pings = setInterval(() => res.write(': ping\n\n'), 20)
    res.once('close', () => clearInterval(pings))
  })
  const answer = await stream()
  t.equal(answer.status, 200)
  const text = await answer.text()
  t.match(text, /upstream_timeout.*\n\n$/)
  t.notMatch(text, /\[DONE\]|ping/)
})

t.test('the whole generation has a time limit too, however busy the backend is', async (t) => {
  const { backend, stream } = await chatPath(t, { model: 'timeouts: { total: 300ms }' })
  backend.on(({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    const words = setInterval(() => res.write(word), 20)
    res.once('close', () => clearInterval(words))
  })
  t.match(await (await stream()).text(), /upstream_timeout/)
})

t.test(
  '200 is sent when first content is late, and an error after that comes in the stream',
  async (t) => {
    const { backend, stream } = await chatPath(t, {
      yaml: 'limits: { first_byte: 50ms, heartbeat: 30ms }',
      model: 'timeouts: { first_token: 2s }',
    })
    const gate = new Gate()
    backend.on(sse([word], { gate, end: false }))
    const answer = await stream()
    t.equal(answer.status, 200)
    t.match(
      await answer.text(),
      /^(:\n)+data: .*upstream_timeout.*\n\n$/,
      'heartbeats, then the error',
    )
  },
)

/** The deadline of a stream. */
function started(t: Test) {
  const parent = new AbortController()
  const { timeouts: given } = modelOf([])
  const timeouts = { ...given, totalMs: 10 * given.idleMs }
  const kind = { generates: true, stream: true }
  const deadline = new Deadline({ ...kind, timeouts, parent: parent.signal })
  t.teardown(() => deadline.stop())
  return { parent, deadline }
}

t.test('a departure only notifies where somebody listens; an end still ends it', async (t) => {
  const alone = started(t)
  alone.parent.abort(new ClientLeft())
  t.ok(alone.deadline.signal.aborted)
  const read = started(t)
  const told: unknown[] = []
  read.deadline.onDepart((reason) => told.push(reason))
  read.parent.abort(new ClientLeft())
  read.deadline.depart(new GatewayError('message_cancelled'))
  t.equal(told.length, 2)
  t.notOk(read.deadline.signal.aborted)
  read.deadline.depart(new GatewayError('server_draining'))
  t.match(read.deadline.signal.reason, { code: 'server_draining' })
})

t.test('an answer that its first content pauses may be silent until it goes on', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { deadline } = started(t)
  const { idleMs } = modelOf([]).timeouts
  deadline.asking()
  deadline.pause()
  deadline.started()
  mock.timers.tick(idleMs)
  t.notOk(deadline.signal.aborted)
  deadline.resume()
  mock.timers.tick(idleMs)
  await nextTurn()
  t.match(deadline.signal.reason, { code: 'upstream_timeout' })
})

t.test('what happens while the event loop looks once more ends the silence', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { idleMs } = modelOf([]).timeouts
  for (const happens of ['heard', 'pause', 'waiting', 'asking', 'stop'] as const) {
    const { deadline } = started(t)
    deadline.asking()
    deadline.started()
    mock.timers.tick(idleMs)
    deadline[happens]()
    await nextTurn()
    t.notOk(deadline.signal.aborted, happens)
    deadline.stop()
  }
})

t.test('after the last content a departure ends nothing, a time limit still does', async (t) => {
  const { parent, deadline } = started(t)
  const told: unknown[] = []
  deadline.onDepart((reason) => told.push(reason))
  deadline.finished()
  parent.abort(new ClientLeft())
  t.strictSame(told, [])
  t.notOk(deadline.signal.aborted)
  deadline.cancel(new GatewayError('upstream_timeout'))
  t.ok(deadline.signal.aborted)
})

t.test('the wait for what was sent ends when nothing comes any more', async (t) => {
  let reads = 0
  let left = 20
  const reading = async () => {
    for (; left > 0; left--) {
      reads++
      await nextTurn()
    }
  }
  const done = reading()
  await untilQuiet(
    () => reads,
    () => false,
  )
  t.equal(left, 0, 'all was read')
  await done
})

t.test('after its end no target is asked, so no clock is started', (t) => {
  const { deadline } = started(t)
  deadline.cancel(new ClientLeft())
  deadline.stop()
  const clocks = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  const before = clocks()
  deadline.asking()
  t.equal(clocks(), before)
  t.end()
})

t.test('the wait for what was sent ends at once where it is over', async (t) => {
  let asked = 0
  await untilQuiet(
    () => asked++,
    () => true,
  )
  t.ok(asked <= 1)
})

t.test('a socket that never falls silent is not waited for', async (t) => {
  let reads = 0
  const before = performance.now()
  await untilQuiet(
    () => reads++,
    () => false,
  )
  t.ok(performance.now() - before >= 99, 'but for as long as may be')
  t.ok(reads > 3)
})
