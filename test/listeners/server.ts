import t from 'tap'
import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as connectTls } from 'node:tls'
import { once } from 'node:events'
import { GatewayError } from '../../src/errors.ts'
import { sendError } from '../../src/http/reply.ts'
import { certificate } from '../fixtures/certificate.ts'
import { echoSize, quietLog, readAndAnswer, startListener } from '../fixtures/http-listener.ts'
import { rawClient } from '../fixtures/raw-http.ts'

const host = 'Host: a\r\n'
const json = `${host}Content-Type: application/json\r\n`

t.test('headers over 16 KiB are 431 headers_too_large, a megabyte of query too', async (t) => {
  const listener = await startListener(t, readAndAnswer(echoSize))
  const bombs = {
    'one long header': `GET / HTTP/1.1\r\n${host}X-A: ${'a'.repeat(20_000)}\r\n\r\n`,
    'many headers': `GET / HTTP/1.1\r\n${host}${'X-A: bcdef\r\n'.repeat(3000)}\r\n`,
    'a megabyte of query': `GET /?${'a'.repeat(1_000_000)} HTTP/1.1\r\n${host}\r\n`,
    'headers without end': `GET / HTTP/1.1\r\n${host}${'X-A: b\r\n'.repeat(100_000)}`,
  }
  for (const [name, bytes] of Object.entries(bombs)) {
    const client = await rawClient(t, listener.port)
    const answer = await client.ask(bytes)
    t.match(answer, { status: 431, json: { error: { code: 'headers_too_large' } } }, name)
    t.equal(answer.headers.connection, 'close', name)
  }
  const client = await rawClient(t, listener.port)
  t.equal(
    (
      await client.ask(
        `GET / HTTP/1.1\r\n${host}${'a:\r\n'.repeat(3900)}Authorization: last\r\n\r\n`,
      )
    ).status,
    200,
    'thousands of short headers fit',
  )
})

t.test('no header is dropped because there are many', async (t) => {
  let seen: IncomingMessage['headers'] = {}
  const listener = await startListener(
    t,
    readAndAnswer((body, req) => {
      seen = req.headers
      return echoSize(body, req)
    }),
  )
  const client = await rawClient(t, listener.port)
  await client.ask(`GET / HTTP/1.1\r\n${host}${'a:\r\n'.repeat(3000)}Authorization: last\r\n\r\n`)
  t.equal(seen.authorization, 'last')
})

t.test('headers that come too slowly, or not at all, are 408 request_timeout', async (t) => {
  const limits = { headersMs: 150, keepAliveMs: 75_000 }
  const listener = await startListener(t, readAndAnswer(echoSize), { limits })
  const slow = await rawClient(t, listener.port)
  const answer = await slow.ask(`GET / HTTP/1.1\r\n${host}`)
  t.match(answer, { status: 408, json: { error: { code: 'request_timeout' } } })
  slow.socket.end()
  await slow.ended()
  const silent = await rawClient(t, listener.port)
  t.equal((await silent.answer()).json.error?.code, 'request_timeout')
  silent.socket.end()
  await silent.ended()
})

t.test('an idle connection is closed after the keep-alive time, a used one is kept', async (t) => {
  const connectTo = async (keepAliveMs: number) => {
    const limits = { headersMs: 60_000, keepAliveMs }
    const { port } = await startListener(t, readAndAnswer(echoSize), { limits })
    return await rawClient(t, port)
  }
  const idle = await connectTo(100)
  t.equal((await idle.ask(`GET / HTTP/1.1\r\n${host}\r\n`)).status, 200)
  const used = await connectTo(60_000)
  for (let count = 0; count < 2; count++) {
    t.equal((await used.ask(`GET / HTTP/1.1\r\n${host}\r\n`)).status, 200)
  }
  await idle.ended()
})

t.test('pipelined requests are answered in order, whatever their duration', async (t) => {
  const { promise: hold, resolve: letGo } = Promise.withResolvers<void>()
  const listener = await startListener(
    t,
    readAndAnswer(async (body, req) => {
      if (req.url === '/0') await hold
      else letGo()
      return echoSize(body, req)
    }),
  )
  const client = await rawClient(t, listener.port)
  client.send(
    [0, 1, 2].map((i) => `POST /${i} HTTP/1.1\r\n${json}Content-Length: 2\r\n\r\n{}`).join(''),
  )
  for (const i of [0, 1, 2]) t.equal((await client.answer()).json.url, `/${i}`)
})

t.test('HTTP/1.0 is answered and closed, with keep-alive kept', async (t) => {
  const listener = await startListener(t, readAndAnswer(echoSize))
  const client = await rawClient(t, listener.port)
  t.equal((await client.ask('GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n')).json.url, '/a')
  const answer = await client.ask('GET /b HTTP/1.0\r\n\r\n')
  t.equal(answer.json.url, '/b')
  t.equal(answer.headers.connection, 'close')
  await client.ended()
})

t.test('an offer to upgrade is ignored: the request is served, body and all', async (t) => {
  const listener = await startListener(t, readAndAnswer(echoSize))
  for (const offer of ['h2c', 'websocket']) {
    const client = await rawClient(t, listener.port)
    const upgrade = `Connection: Upgrade\r\nUpgrade: ${offer}\r\n`
    const answer = await client.ask(
      `POST / HTTP/1.1\r\n${json}${upgrade}Content-Length: 7\r\n\r\n{"a":1}`,
    )
    t.equal(answer.status, 200, offer)
    t.equal(answer.json.bytes, 7)
    t.equal(
      (await client.ask(`GET /next HTTP/1.1\r\n${host}\r\n`)).json.url,
      '/next',
      'and the connection goes on',
    )
  }
})

t.test('while draining, new requests are refused and closed, running ones end well', async (t) => {
  const { promise: hold, resolve: letGo } = Promise.withResolvers<void>()
  const { promise: began, resolve: begin } = Promise.withResolvers<void>()
  const listener = await startListener(
    t,
    readAndAnswer(async (body, req) => {
      begin()
      await hold
      return echoSize(body, req)
    }),
    { onDrainingRequest: readAndAnswer(() => ({ status: 503, body: '' })) },
  )
  const running = await rawClient(t, listener.port)
  running.send(`GET / HTTP/1.1\r\n${host}\r\n`)
  await began
  listener.drain()
  const late = await rawClient(t, listener.port)
  const refused = await late.ask(`GET / HTTP/1.1\r\n${host}\r\n`)
  t.equal(refused.status, 503)
  t.equal(refused.headers.connection, 'close')
  letGo()
  t.equal((await running.answer()).status, 200)
})

t.test('a handler that throws is answered 500 without its words, and logged', async (t) => {
  const logged: object[] = []
  const log = { ...quietLog, error: (fields: object) => void logged.push(fields) }
  const listener = await startListener(t, () => Promise.reject(new Error('secret host')), { log })
  const client = await rawClient(t, listener.port)
  const answer = await client.ask(`GET / HTTP/1.1\r\n${host}\r\n`)
  t.match(answer, { status: 500, json: { error: { code: 'internal_error' } } })
  t.notMatch(answer.body.toString(), /secret/)
  t.match(logged, [{ id: answer.headers['x-request-id'] }])
})

t.test('connections are counted, and close() ends those that are idle or stuck', async (t) => {
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>()
  const listener = await startListener(t, () => ask())
  t.equal(listener.address, `http://127.0.0.1:${listener.port}`)
  const idle = await rawClient(t, listener.port)
  const stuck = await rawClient(t, listener.port)
  stuck.send(`GET / HTTP/1.1\r\n${host}\r\n`)
  await asked
  t.equal(listener.connections, 2)
  await Promise.all([listener.close(), idle.ended(), stuck.ended()])
  while (listener.connections > 0) await new Promise(setImmediate)
  const refused = connect({ port: listener.port, host: '127.0.0.1' })
  const [error] = await once(refused, 'error')
  t.equal(error.code, 'ECONNREFUSED')
})

t.test('close() first answers those that wait to be accepted', async (t) => {
  const listener = await startListener(t, readAndAnswer(echoSize))
  const clients = await Promise.all(Array.from({ length: 100 }, () => rawClient(t, listener.port)))
  t.ok(listener.connections < 100, `${listener.connections} of 100 are accepted`)
  const asking = clients.map((client) => client.ask(`GET / HTTP/1.1\r\n${host}\r\n`))
  const [answers] = await Promise.all([Promise.all(asking), listener.close()])
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]))
})

t.test('who connects without end does not keep it from closing', async (t) => {
  const listener = await startListener(t, readAndAnswer(echoSize))
  const hurry = new AbortController()
  let isOver = false
  const connecting = (async () => {
    while (!isOver) await rawClient(t, listener.port)
  })()
  let hasWaited = false
  const waiting = listener.caughtUp(60_000, hurry.signal).then(() => (hasWaited = true))
  await listener.caughtUp(50)
  t.notOk(hasWaited)
  hurry.abort()
  await waiting
  isOver = true
  await connecting
})

t.test('after a body that came too slowly the connection is not used again', async (t) => {
  const listener = await startListener(t, (_req, res) =>
    sendError(res, { id: 'req_1', replyHeaders: {} }, new GatewayError('request_timeout')),
  )
  const client = await rawClient(t, listener.port)
  const answer = await client.ask(`POST / HTTP/1.1\r\n${json}Content-Length: 10\r\n\r\n{"a`)
  t.equal(answer.status, 408)
  t.equal(answer.headers.connection, 'close')
})

t.test('an address in use is an error of createListener', async (t) => {
  const listener = await startListener(t, readAndAnswer(echoSize))
  const listen = { host: '127.0.0.1', port: listener.port, trustedProxies: [] }
  await t.rejects(startListener(t, readAndAnswer(echoSize), { listen }), { code: 'EADDRINUSE' })
})

t.test('with a certificate it speaks TLS, refusals included', async (t) => {
  const { cert, key } = certificate
  const listen = { host: '127.0.0.1', port: 0, trustedProxies: [], tls: { cert, key } }
  const listener = await startListener(t, readAndAnswer(echoSize), { listen })
  t.match(listener.address, /^https:/)
  const ask = async (bytes: string) => {
    const socket = connectTls({ port: listener.port, host: '127.0.0.1', ca: cert })
    t.teardown(() => void socket.destroy())
    socket.end(bytes)
    return text(socket)
  }
  t.match(await ask(`GET / HTTP/1.1\r\n${host}Connection: close\r\n\r\n`), /^HTTP\/1.1 200 OK\r\n/)
  t.match(await ask('RUBBISH\r\n\r\n'), /^HTTP\/1.1 400 [^]*"malformed_request"/)
})

t.test('a wide port resumes a TLS session on each of its sockets', async (t) => {
  const { cert, key } = certificate
  const listen = {
    host: '127.0.0.1',
    port: 0,
    trustedProxies: [],
    tls: { cert, key },
    wide: 'first' as const,
  }
  const listener = await startListener(t, readAndAnswer(echoSize), { listen })
  const request = `GET / HTTP/1.1\r\n${host}Connection: close\r\n\r\n`
  const begin = (session?: Buffer) => {
    const to = { port: listener.port, host: '127.0.0.1', ca: cert, ...(session && { session }) }
    const socket = connectTls(to)
    t.teardown(() => void socket.destroy())
    socket.end(request)
    return socket
  }
  const first = begin()
  const [[session]] = await Promise.all([once(first, 'session'), text(first)])
  for (const renewed of [undefined, { ...listen, tls: certificate.renewed }]) {
    if (renewed) listener.adjust(renewed, { keepAliveMs: 75_000 })
    for (let i = 0; i < 20; i++) {
      const socket = begin(session)
      await once(socket, 'secureConnect')
      t.equal(socket.isSessionReused(), true)
      t.match(await text(socket), /^HTTP\/1.1 200 OK/)
    }
  }
})
