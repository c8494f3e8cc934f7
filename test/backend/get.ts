// A GET of a target: what goes out, and that it ends, however the target answers. Against lists of models:
// test/cli/doctor/list-models.ts.

import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { getFrom } from '../../src/backend/get.ts'
import { startBackend } from '../fixtures/backend.ts'
import { json, redirect, silent } from '../fixtures/backend-scripts.ts'
import { listenOn } from '../fixtures/listen.ts'
import { targetOf } from '../fixtures/target.ts'
import { soon, until } from '../fixtures/until.ts'

const { signal } = new AbortController()

t.test('it has the headers and the key of a request, and a connection of its own', async (t) => {
  const backend = await startBackend(t, json({ ok: true }))
  const target = targetOf(backend.url, { key: 'sk-1', headers: { 'x-team': 'chat' } })
  for (let i = 0; i < 2; i++) {
    const url = new URL('/health?deep=1', backend.url)
    const answer = await getFrom(target, { url, connectMs: 5000, signal })
    t.equal(await text(answer), '{"ok":true}')
  }
  const [first, second] = backend.requests
  t.match(first, { method: 'GET', path: '/health?deep=1', connection: 0 })
  t.match(first?.headers, { authorization: 'Bearer sk-1', 'x-team': 'chat', host: /^127/ })
  t.equal(second?.connection, 1)
  await until(() => backend.open === 0)
})

t.test('a redirect is an answer like others', async (t) => {
  const other = await startBackend(t)
  const backend = await startBackend(t, redirect(other.url))
  const url = new URL('/health', backend.url)
  const answer = await getFrom(targetOf(backend.url), { url, connectMs: 5000, signal })
  t.equal(answer.statusCode, 302)
  answer.resume()
  t.equal(other.connections, 0)
})

t.test('who no longer wants it, or gets no answer, waits for nothing', async (t) => {
  const backend = await startBackend(t, silent)
  const end = new AbortController()
  const asking = getFrom(targetOf(backend.url), {
    url: new URL(backend.url),
    connectMs: 5000,
    signal: end.signal,
  })
  const { closed } = await backend.request(0)
  end.abort()
  await t.rejects(soon(asking), { name: 'AbortError' })
  t.ok(await soon(closed))
  const upgrading = createServer()
  upgrading.on('connection', (socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n')
  })
  const { url } = await listenOn(t, upgrading)
  const upgraded = getFrom(targetOf(url), { url: new URL(url), connectMs: 5000, signal })
  await t.rejects(soon(upgraded), /closed without an answer|socket hang up/)
})
