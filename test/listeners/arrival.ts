// src/listeners/arrival.ts: the exchange of a request that no plugin has seen yet.

import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import t from 'tap'
import { Arrival } from '../../src/listeners/arrival.ts'
import { answering } from '../../src/exchange.ts'
import type { Route } from '../../src/exchange.ts'
import { createRouter } from '../../src/listeners/router.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { heapBytes } from '../fixtures/heap.ts'
import { until } from '../fixtures/until.ts'

const route: Route = {
  method: 'POST',
  path: '/api/files/:id',
  access: 'files',
  body: 'json',
  maxBytes: 1024,
  begin: answering(async () => ({ status: 200, body: '' })),
}
const router = createRouter([route])

function arrive(head: Partial<IncomingMessage>): Arrival {
  const req = { method: 'POST', url: '/', headers: {}, ...head } as IncomingMessage
  const memory = { take() {}, keep() {}, release() {} }
  const { signal } = new AbortController()
  return new Arrival(
    req,
    { listener: 'public', router, addressOf: () => '127.0.0.1' },
    { signal, memory },
  )
}

t.test('the exchange has the fields of the head, and an id of its own', async (t) => {
  const one = arrive({ url: '/api/files/file_1?a=b' })
  t.match(one, { route, path: '/api/files/file_1', params: { id: 'file_1' }, ip: '127.0.0.1' })
  t.equal(one.query.get('a'), 'b')
  t.match(one.id, /^req_[0-9a-f]{32}$/)
  t.not(arrive({}).id, one.id)
})

t.test('a request that the router refuses has a route that refuses', async (t) => {
  for (const [method, code] of [
    ['POST', 'route_not_found'],
    ['GET', 'method_not_allowed'],
  ] as const) {
    const x = arrive({ method, url: method === 'GET' ? '/api/files/file_1' : '/nothing' })
    await t.rejects(x.route.begin(x).serve(Object(undefined)), { code })
  }
})

t.test('a body is held until it is forgotten', async (t) => {
  const x = arrive({})
  t.equal(x.body.length, 0)
  x.keepBody(Buffer.from('{}'))
  t.equal(String(x.body), '{}')
  x.forgetBody()
  t.equal(x.body.length, 0)
})

t.test('a departure of the client is reported to later listeners, too', async (t) => {
  const early = arrive({})
  const heard: string[] = []
  early.left.addEventListener('abort', () => heard.push('left'))
  t.equal(early.left.aborted, false)
  early.leave()
  t.same(heard, ['left'])
  const late = arrive({})
  late.leave()
  t.equal(late.left.aborted, true)
})

t.test('connections that wait for their next request hold no body of the last one', async (t) => {
  const yaml = "models: { m: { targets: [{ url: 'http://127.0.0.1:1' }], price: { input: 1 } } }"
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(1)
  const content = 'word '.repeat(100_000)
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] })
  const { port } = new URL(gateway.url)
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    'Host: x',
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ]
  const whole = `${head.join('\r\n')}\r\n\r\n${body}`
  const refused = async () => {
    const socket = connect(Number(port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.write(whole)
    const [answer] = (await once(socket, 'data')) as [Buffer]
    t.match(answer.toString(), /^HTTP\/1.1 402 /)
  }
  await refused()
  const before = heapBytes()
  for (let i = 0; i < 20; i++) await refused()
  // The last exchange may still be ending.
  await until(() => heapBytes() - before < 4_000_000, 2000).catch(() => undefined)
  t.ok(heapBytes() - before < 4_000_000, `${heapBytes() - before} bytes of 10,000,000`)
})
