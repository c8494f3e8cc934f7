// src/listeners/arrival.ts: the exchange of a request that no plugin has seen yet.

import type { IncomingMessage } from 'node:http'
import t from 'tap'
import { Arrival } from '../../src/listeners/arrival.ts'
import { answering } from '../../src/exchange.ts'
import type { Route } from '../../src/exchange.ts'
import { createRouter } from '../../src/listeners/router.ts'

const route: Route = {
  method: 'POST',
  path: '/api/files/:id',
  access: 'files',
  body: 'json',
  begin: answering(async () => ({ status: 200, body: '' })),
}
const router = createRouter([route])

function arrive(head: Partial<IncomingMessage>): Arrival {
  const req = { method: 'POST', url: '/', headers: {}, ...head } as IncomingMessage
  const memory = { take() {}, keep() {}, release() {} }
  const { signal } = new AbortController()
  return new Arrival(req, { router, addressOf: () => '127.0.0.1' }, { signal, memory })
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
