// One attempt against a scripted backend: what goes out, what comes back, and what http-proxy-3 must not do.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { forward } from '../../src/backend/forward.ts'
import { GatewayError } from '../../src/errors.ts'
import { startBackend } from '../fixtures/backend.ts'
import type { Backend } from '../fixtures/backend.ts'
import * as scripts from '../fixtures/backend-scripts.ts'
import { ask, attempt, targetOf, textOf } from '../fixtures/target.ts'

/** The headers that arrived, with lower-case names. */
function sentHeaders(backend: Backend, index = 0): Record<string, string> {
  const raw = backend.requests[index]?.rawHeaders ?? []
  const out: Record<string, string> = {}
  for (let i = 0; i < raw.length; i += 2) out[(raw[i] ?? '').toLowerCase()] = raw[i + 1] ?? ''
  return out
}

t.test('path, query, credential and body arrive as they were given', async (t) => {
  const backend = await startBackend(t)
  const url = `${backend.url}/deploy%2Fx/?api-version=2&b=%20`
  const answer = await forward(attempt(targetOf(url, { key: 'sk-secret' })))
  t.equal(answer.status, 200)
  t.match(JSON.parse(await textOf(answer)), { choices: [{ finish_reason: 'stop' }] })
  t.equal(await answer.ended, 'whole')
  const [request] = backend.requests
  t.equal(request?.path, '/v1/deploy%2Fx/chat/completions?api-version=2&b=%20')
  t.equal(request?.method, 'POST')
  t.equal(request?.body.toString(), ask)
  t.strictSame(sentHeaders(backend), {
    'content-type': 'application/json',
    host: `127.0.0.1:${backend.port}`,
    'accept-encoding': 'identity',
    authorization: 'Bearer sk-secret',
    'content-length': String(ask.length),
    connection: 'keep-alive',
  })
})

t.test('a key with a header of its own is sent in that header only', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url, {
    key: 'k',
    keyHeader: 'Api-Key',
    headers: { 'X-Org': 'o' },
  })
  await textOf(await forward(attempt(target)))
  t.match(sentHeaders(backend), { 'api-key': 'k', 'x-org': 'o' })
  t.notOk('authorization' in sentHeaders(backend))
})

t.test('no client header that could hurt gets through', async (t) => {
  const backend = await startBackend(t)
  const headers = {
    Expect: '100-continue',
    Connection: 'close',
    'Transfer-Encoding': 'chunked',
    'Content-Length': '3',
    Host: 'evil.test',
    Origin: 'https://evil.test',
    Cookie: 'a=b',
    Authorization: 'Bearer tg_live_client',
    'Accept-Encoding': 'gzip',
    'X-Forwarded-For': '1.2.3.4',
    Trailer: 'x',
    accept: 'text/event-stream',
  }
  const request = { path: '/chat/completions', headers, body: [Buffer.from(ask)] }
  const target = targetOf(backend.url, { key: 'ours' })
  await textOf(await forward(attempt(target, { request })))
  t.strictSame(Object.keys(sentHeaders(backend)).sort(), [
    'accept',
    'accept-encoding',
    'authorization',
    'connection',
    'content-length',
    'host',
  ])
  t.match(sentHeaders(backend), { authorization: 'Bearer ours', connection: 'keep-alive' })
  t.equal(backend.requests[0]?.body.toString(), ask)
})

t.test('bodies arrive whole: empty ones, all byte values, 5 MB, and in pieces', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url)
  const every = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
  const large = Buffer.alloc(5_000_000, every)
  const pieces = [every, Buffer.alloc(0), large, every]
  for (const [i, body] of [[], [Buffer.alloc(0)], [every], [large], pieces].entries()) {
    let sent = 0
    const request = { path: '/completions', headers: {}, body }
    await textOf(await forward(attempt(target, { request, onSent: () => sent++ })))
    t.ok(backend.requests[i]?.body.equals(Buffer.concat(body)))
    t.equal(sent, 1)
  }
})

t.test('nobody listening and an unknown host are upstream_unavailable', async (t) => {
  const backend = await startBackend(t)
  await backend.stop()
  await t.rejects(forward(attempt(targetOf(backend.url))), { code: 'upstream_unavailable' })
  await t.rejects(forward(attempt(targetOf('http://no-such-host.invalid/v1'))), {
    code: 'upstream_unavailable',
  })
})

t.test('a header that HTTP cannot carry is refused before a connection is made', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url, { headers: { 'x-a': 'a\nb: c' } })
  await t.rejects(forward(attempt(target)), { name: 'GatewayError', code: 'upstream_error' })
  t.equal(backend.connections, 0)
})

t.test('redirects are not followed', async (t) => {
  const other = await startBackend(t)
  const backend = await startBackend(t, scripts.redirect(`${other.url}/chat/completions`))
  const answer = await forward(attempt(targetOf(backend.url, { key: 'k' })))
  t.equal(answer.status, 302)
  answer.abort()
  t.equal(other.requests.length, 0)
})

t.test('every captured answer of a real server comes through with its status', async (t) => {
  const names = [
    ['llama-err-404-path.http', 404],
    ['llama-err-401.http', 401],
    ['llama-loading.http', 503],
    ['tf-err-bad-json.http', 422],
    ['llamapy-err-bad-json.http', 500],
    ['ollama-err-host.http', 403],
    ['ollama-nonstream.http', 200],
    ['llamapy-err-too-long-stream.http', 200],
    ['tf-stream-n2.sse', 200],
  ] as const
  const backend = await startBackend(t)
  for (const [name, status] of names) {
    backend.once(scripts.replay(name))
    // Each has an address of its own, hence a connection of its own: some captures end theirs.
    const answer = await forward(attempt(targetOf(`${backend.url}?capture=${name}`)))
    t.equal(answer.status, status, name)
    answer.stream.resume()
    t.equal(await answer.ended, 'whole', name)
  }
})

t.test('the demo model is reached the same way', async (t) => {
  const answer = await forward(attempt(targetOf('demo')))
  t.match(JSON.parse(await textOf(answer)), { object: 'chat.completion' })
})

t.test('with FORCE_FETCH_PATH set nothing starts', async (t) => {
  const file = new URL('../../src/backend/forward.ts', import.meta.url).pathname
  const run = promisify(execFile)
  for (const value of ['true', '1']) {
    const env = { ...process.env, FORCE_FETCH_PATH: value }
    await t.rejects(run(process.execPath, [file], { env }), /FORCE_FETCH_PATH is set/)
  }
})

t.test('a request whose client has left meanwhile is not sent', async (t) => {
  const backend = await startBackend(t)
  const signal = AbortSignal.abort(new GatewayError('server_draining'))
  const target = targetOf(backend.url)
  await t.rejects(forward(attempt(target, { signal })), { code: 'server_draining' })
  await textOf(await forward(attempt(target)))
  t.equal(backend.requests.length, 1)
})
