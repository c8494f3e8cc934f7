// The clocks of a backend request, seen from the client: each ends a request that would never end.

import t from 'tap'
import { Deadline } from '../../src/chat/deadline.ts'
import { GatewayError } from '../../src/errors.ts'
import { ClientLeft } from '../../src/http/body.ts'
import { modelOf } from '../fixtures/target.ts'
import { Gate } from '../fixtures/gate.ts'
import { silent, sse } from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { codeOf } from '../fixtures/gateway.ts'

const word = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
const role = 'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'

t.test(
  'a first token that never comes is 504, streamed or not, and nothing is charged',
  async (t) => {
    const { backend, ask, spent } = await chatPath(t, { model: 'timeouts: { first_token: 100ms }' })
    backend.on(silent)
    for (const stream of [false, true]) {
      const answer = await ask({ ...hi, stream })
      t.equal(answer.status, 504)
      t.equal(await codeOf(answer), 'upstream_timeout')
    }
    backend.on(sse([role], { end: false }))
    const answer = await ask({ ...hi, stream: true })
    t.equal(answer.status, 504, 'a role is no content')
    t.equal(await spent(), 0)
    for (const { closed } of backend.requests) t.ok(await closed)
  },
)

t.test('silence between chunks ends a stream with an error, comments or not', async (t) => {
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

t.test('the whole has its bound too, however busy the backend', async (t) => {
  const { backend, stream } = await chatPath(t, { model: 'timeouts: { total: 300ms }' })
  backend.on(({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    const words = setInterval(() => res.write(word), 20)
    res.once('close', () => clearInterval(words))
  })
  t.match(await (await stream()).text(), /upstream_timeout/)
})

t.test(
  '200 is committed when first content is long in coming; then errors stand in the stream',
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

t.test('who departs is told of where somebody still reads; an end is an end', async (t) => {
  const started = () => {
    const parent = new AbortController()
    const deadline = new Deadline(modelOf([]), parent.signal)
    t.teardown(() => deadline.stop())
    return { parent, deadline }
  }
  const alone = started()
  alone.parent.abort(new ClientLeft())
  t.ok(alone.deadline.signal.aborted)
  const read = started()
  const told: unknown[] = []
  read.deadline.onDepart((reason) => told.push(reason))
  read.parent.abort(new ClientLeft())
  read.deadline.depart(new GatewayError('message_cancelled'))
  t.equal(told.length, 2)
  t.notOk(read.deadline.signal.aborted)
  read.deadline.depart(new GatewayError('server_draining'))
  t.match(read.deadline.signal.reason, { code: 'server_draining' })
})

t.test('once all is generated nobody who leaves ends it, and the clocks still do', async (t) => {
  const parent = new AbortController()
  const deadline = new Deadline(modelOf([]), parent.signal)
  t.teardown(() => deadline.stop())
  const told: unknown[] = []
  deadline.onDepart((reason) => told.push(reason))
  deadline.finished()
  parent.abort(new ClientLeft())
  t.strictSame(told, [])
  t.notOk(deadline.signal.aborted)
  deadline.cancel(new GatewayError('upstream_timeout'))
  t.ok(deadline.signal.aborted)
})
