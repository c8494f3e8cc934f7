// The pool of connections: which are idle, in use or dead, and how long connecting may take.

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer as createTcp } from 'node:net'
import { createServer as createTls } from 'node:https'
import { request } from 'node:http'
import type { Agent, IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { mock } from 'node:test'
import t from 'tap'
import { openConnections, portOf } from '../../src/backend/connections.ts'
import { forward } from '../../src/backend/forward.ts'
import { startBackend } from '../fixtures/backend.ts'
import type { Call } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import * as scripts from '../fixtures/backend-scripts.ts'
import { bothWays } from '../fixtures/both-ways.ts'
import { certificate } from '../fixtures/certificate.ts'
import { Gate } from '../fixtures/gate.ts'
import { standStill } from '../fixtures/stand-still.ts'
import { attempt, modelOf, targetOf, textOf } from '../fixtures/target.ts'
import { until } from '../fixtures/until.ts'

const test = bothWays(t, 'connection-list')

t.test('a target without a port has that of its scheme', async (t) => {
  const ports = ['http://a', 'https://a/v1', 'https://a:8443'].map((url) => portOf(new URL(url)))
  t.same(ports, [80, 443, 8443])
})

async function askVia(url: string, agent: Agent): Promise<boolean> {
  const req = request(`${url}/models`, { agent })
  req.end()
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  res.resume()
  await once(res, 'close')
  return req.reusedSocket
}

test('the last connection used is the first to be used again', async (t, isPlain) => {
  const backend = await startBackend(t)
  const kept = openConnections({ url: new URL(backend.url), ca: undefined, connectMs: 1000 })
  t.equal(await askVia(backend.url, kept.reusing), false)
  t.equal(await askVia(backend.url, kept.reusing), true)
  t.equal(await askVia(backend.url, kept.fresh()), false)
  t.equal(kept.idle, isPlain ? 1 : 2)
  t.equal(await askVia(backend.url, kept.reusing), true)
  t.strictSame(
    backend.requests.map((seen) => seen.connection),
    [0, 0, 1, 1],
  )
  kept.close()
})

test('a connection that its server or the target closes is forgotten', async (t) => {
  const backend = await startBackend(t)
  const kept = openConnections({ url: new URL(backend.url), ca: undefined, connectMs: 1000 })
  for (const close of [() => backend.dropIdle(), () => kept.close()]) {
    t.equal(await askVia(backend.url, kept.reusing), false)
    t.equal(kept.idle, 1)
    close()
    while (kept.idle > 0) await new Promise((resolve) => setImmediate(resolve))
  }
})

test('one connection serves one request after the other; several at once get several', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url)
  for (let i = 0; i < 20; i++) await textOf(await forward(attempt(target)))
  t.equal(backend.connections, 1)
  const gate = new Gate()
  backend.on(chat({ gate }))
  const stream = {
    path: '/chat/completions',
    headers: {},
    body: [Buffer.from('{"stream":true}')],
  }
  const open = [1, 2, 3].map(() => forward(attempt(target, { request: stream })))
  const answers = await Promise.all(open)
  gate.open()
  await Promise.all(answers.map(textOf))
  t.equal(backend.connections, 3)
})

test('the connect time-out covers TLS: a server that accepts and says nothing', async (t) => {
  const sockets = new Set<Socket>()
  let said = 0
  const mute = createTcp((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => (said += bytes.length))
  })
  mute.listen(0, '127.0.0.1')
  await once(mute, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    mute.close()
  })
  const target = targetOf(`https://127.0.0.1:${(mute.address() as AddressInfo).port}/v1`)
  const timeouts = { connectMs: 50, firstTokenMs: 5000, idleMs: 5000, totalMs: 5000 }
  const model = modelOf([target], { timeouts })
  let sent = 0
  let refusal: unknown
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const forwarding = forward(attempt(target, { model, onSent: () => sent++ }))
  const asking = forwarding.catch((error: unknown) => (refusal = error))
  // The client's first TLS message has come, so the connection is open and waits for TLS.
  while (said === 0) await new Promise(setImmediate)
  mock.timers.tick(timeouts.connectMs)
  for (let turns = 0; turns < 100 && !refusal; turns++) await new Promise(setImmediate)
  t.match(refusal, { code: 'upstream_unavailable', cause: { code: 'ETIMEDOUT' } })
  for (const socket of sockets) socket.destroy()
  await asking
  t.equal(sent, 0, 'nothing was asked')
})

test('a slow answer is not a connect time-out', async (t) => {
  const gate = new Gate()
  const backend = await startBackend(t, scripts.sse(['data: 1\n\n'], { gate }))
  const target = targetOf(backend.url)
  const timeouts = { connectMs: 30, firstTokenMs: 5000, idleMs: 5000, totalMs: 5000 }
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const answer = await forward(attempt(target, { model: modelOf([target], { timeouts }) }))
  mock.timers.tick(timeouts.connectMs)
  gate.open()
  t.equal(await textOf(answer), 'data: 1\n\n')
})

test('a connection that was made while the gateway stood still was made in time', async (t) => {
  const { url } = await startBackend(t)
  const kept = openConnections({ url: new URL(url), ca: undefined, connectMs: 20 })
  t.teardown(() => kept.close())
  const asking = askVia(url, kept.reusing)
  standStill(40)
  t.equal(await asking, false)
})

test('names and TLS have their time, also after the gateway stood still', async (t) => {
  const server = createTls(certificate, (_req, res) => void res.end('fine'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  for (const host of ['127.0.0.1', 'localhost']) {
    const url = `https://${host}:${port}/v1`
    const connectMs = 500
    const kept = openConnections({ url: new URL(url), ca: certificate.cert, connectMs })
    t.teardown(() => kept.close())
    const asking = askVia(url, kept.reusing)
    standStill(connectMs + 50)
    t.equal(await asking, false, host)
  }
})

test('a TLS backend with its own certificate is trusted with `ca`, and only then', async (t) => {
  const { cert, key } = certificate
  const mode = { isRude: false }
  let connections = 0
  const server = createTls({ cert, key }, (req, res) => {
    req.resume()
    if (mode.isRude) req.socket.destroy()
    else res.end('fine')
    mode.isRude = false
  })
  server.on('secureConnection', () => connections++)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `https://localhost:${(server.address() as AddressInfo).port}/v1`
  const trusted = targetOf(url, { ca: cert })
  t.equal(await textOf(await forward(attempt(trusted))), 'fine')
  t.equal(await textOf(await forward(attempt(trusted))), 'fine')
  t.equal(connections, 1)
  server.closeIdleConnections()
  t.equal(await textOf(await forward(attempt(trusted))), 'fine', 'after the server closed it')
  mode.isRude = true
  t.equal(await textOf(await forward(attempt(trusted))), 'fine', 'after it hung up on us')
  await t.rejects(forward(attempt(targetOf(url))), { code: 'upstream_error' })
})

test('a dead idle connection is tried again once, on a fresh one', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url)
  await textOf(await forward(attempt(target)))
  backend.once(scripts.reset)
  t.equal((await forward(attempt(target))).status, 200)
  t.strictSame(
    backend.requests.map((request) => request.connection),
    [0, 0, 1],
  )
})

test('the second try is the last', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url)
  await textOf(await forward(attempt(target)))
  backend.on(scripts.reset)
  await t.rejects(forward(attempt(target)), { code: 'upstream_error' })
  t.equal(backend.requests.length, 3)
})

test('an idle connection that answered a byte is not tried again', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url)
  await textOf(await forward(attempt(target)))
  backend.once(scripts.midHeader)
  await t.rejects(forward(attempt(target)), { code: 'upstream_error' })
  t.equal(backend.requests.length, 2)
  await textOf(await forward(attempt(target)))
  backend.once(scripts.raw('HTTP/1.1 200 OK\r\nContent-Type: text/eve', { reset: true }))
  await t.rejects(forward(attempt(target)), { code: 'upstream_error' })
  t.equal(backend.requests.length, 4, 'nor where it was reset then')
})

test('the second try is never on another idle connection', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url)
  const two = await Promise.all([forward(attempt(target)), forward(attempt(target))])
  await Promise.all(two.map(textOf))
  t.equal(backend.connections, 2)
  backend.once(scripts.reset)
  await textOf(await forward(attempt(target)))
  t.equal(backend.requests.at(-1)?.connection, 2)
})

test('connections closed while idle are never used', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url)
  for (let i = 0; i < 10; i++) {
    await textOf(await forward(attempt(target)))
    backend.dropIdle()
  }
  t.equal(backend.requests.length, 10)
})

test('bytes that a backend sends without a request are never the answer to the next one', async (t) => {
  const evil = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'
  const good = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood'
  const gate = new Gate()
  const backend = await startBackend(t, async ({ socket }) => {
    socket.write(good)
    await gate.wait()
    socket.write(evil)
  })
  const target = targetOf(backend.url)
  const ours: Socket[] = []
  const note = (message: unknown) => void ours.push((message as { socket: Socket }).socket)
  subscribe('net.client.socket', note)
  t.teardown(() => unsubscribe('net.client.socket', note))
  t.equal(await textOf(await forward(attempt(target))), 'good')
  gate.open()
  await until(() => ours[0]?.bytesRead === good.length + evil.length)
  backend.on(scripts.raw(good))
  t.equal(await textOf(await forward(attempt(target))), 'good')
  t.equal(backend.connections, 2)
  backend.on(scripts.raw(good + evil))
  const fresh = targetOf(backend.url)
  t.equal((await forward(attempt(fresh))).status, 200)
})

test('idle connections are checked regularly, also after a time without any', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood'
  const calls: Call[] = []
  const backend = await startBackend(t, (call) => {
    calls.push(call)
    call.socket.write(answer)
  })
  const ours: Socket[] = []
  const note = (message: unknown) => void ours.push((message as { socket: Socket }).socket)
  subscribe('net.client.socket', note)
  t.teardown(() => unsubscribe('net.client.socket', note))
  const kept = openConnections({ url: new URL(backend.url), ca: undefined, connectMs: 1000 })
  t.teardown(() => kept.close())
  for (let time = 0; time < 3; time++) {
    t.equal(await askVia(backend.url, kept.reusing), false)
    mock.timers.tick(5000)
    t.equal(kept.idle, 1, 'it has done nothing wrong')
    // The unexpected byte is the reason for closing it.
    calls[time]?.socket.write('x')
    await until(() => (ours[time]?.bytesRead ?? 0) > answer.length)
    mock.timers.tick(5000)
    t.equal(ours[time]?.destroyed, true)
    await until(() => kept.idle === 0)
    mock.timers.tick(5000)
  }
})

bothWays(t, 'receive-buffer')('chunks that are kept do not change when more is read', async (t) => {
  const body = Buffer.from(Array.from({ length: 400_000 }, (_, at) => at % 251))
  const backend = await startBackend(t, async ({ socket }) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`)
    socket.write(body)
  })
  const { stream, ended } = await forward(attempt(targetOf(backend.url)))
  const chunks: Buffer[] = []
  stream.on('data', (chunk: Buffer) => chunks.push(chunk))
  t.equal(await ended, 'whole')
  t.ok(chunks.length > 1)
  t.ok(Buffer.concat(chunks).equals(body))
})
