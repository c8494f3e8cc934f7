// One attempt against a scripted backend, through real sockets: what goes out, what comes back, what http-proxy-3 must not
// do, and each way in which it ends: aborted, cut, answered with nonsense.

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import t from 'tap'
import { abortError, forward, fromNodeError } from '../../src/backend/forward.ts'
import { SseReader } from '../../src/backend/sse-reader.ts'
import { GatewayError } from '../../src/errors.ts'
import { startBackend } from '../fixtures/backend.ts'
import type { Backend } from '../fixtures/backend.ts'
import { chat, endless } from '../fixtures/backend-model.ts'
import * as scripts from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { ask, attempt, targetOf, textOf } from '../fixtures/target.ts'
import { soon, until } from '../fixtures/until.ts'

/** The headers that arrived, with lower-case names. */
function sentHeaders(backend: Backend): Record<string, string> {
  const raw = backend.requests[0]?.rawHeaders ?? []
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

t.test('chunks pass at once', async (t) => {
  const gate = new Gate()
  const backend = await startBackend(t, scripts.sse(['data: 1\n\n', 'data: 2\n\n'], { gate }))
  const { stream, ended } = await forward(attempt(targetOf(backend.url)))
  for (const expected of ['data: 1\n\n', 'data: 2\n\n']) {
    gate.next()
    const [part] = (await once(stream, 'data')) as [Buffer]
    t.equal(part.toString(), expected)
  }
  gate.open()
  t.equal(await ended, 'whole')
})

t.test('200 requests leave no listener behind, on the signal or on a socket', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url)
  const warnings: Error[] = []
  const warn = (warning: Error): void => void warnings.push(warning)
  process.on('warning', warn)
  t.teardown(() => process.off('warning', warn))
  const { signal } = new AbortController()
  let added = 0
  const { addEventListener, removeEventListener } = signal
  signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    added++
    addEventListener.apply(signal, args)
  }
  signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    added--
    removeEventListener.apply(signal, args)
  }
  const counts = new Set<number>()
  for (let i = 0; i < 200; i++) {
    const answer = await forward(attempt(target, { signal }))
    const { socket } = answer.stream
    await textOf(answer)
    if (i > 0)
      counts.add(socket.eventNames().reduce((n, name) => n + socket.listenerCount(name), 0))
  }
  t.equal(backend.connections, 1)
  t.equal(added, 0)
  t.equal(counts.size, 1)
  await forward(attempt(targetOf('http://127.0.0.1:1/v1'), { signal })).catch(() => {})
  t.equal(added, 0)
  t.strictSame(warnings, [])
})

t.test('an abort closes the connection: before the answer, in it, by the signal', async (t) => {
  const backend = await startBackend(t, scripts.silent)
  const target = targetOf(backend.url)
  const before = new AbortController()
  const waiting = forward(attempt(target, { signal: before.signal }))
  const first = await backend.request(0)
  const reason = new GatewayError('upstream_timeout')
  before.abort(reason)
  t.equal(await waiting.catch((error: unknown) => error), reason)
  await soon(first.closed)

  backend.on(endless({ gapMs: 1 }))
  const during = new AbortController()
  const bySignal = await forward(attempt(target, { signal: during.signal }))
  await once(bySignal.stream, 'data')
  during.abort()
  t.equal(await bySignal.ended, 'cut')
  await soon((await backend.request(1)).closed)

  const byHand = await forward(attempt(target))
  byHand.abort()
  t.equal(await byHand.ended, 'cut')
  await soon((await backend.request(2)).closed)
})

t.test('an abort before the start sends nothing', async (t) => {
  const backend = await startBackend(t)
  await t.rejects(forward(attempt(targetOf(backend.url), { signal: AbortSignal.abort() })), {
    code: 'message_cancelled',
  })
  t.equal(backend.connections, 0)
})

t.test('aborting after the end closes nothing', async (t) => {
  const backend = await startBackend(t)
  const target = targetOf(backend.url)
  const control = new AbortController()
  const answer = await forward(attempt(target, { signal: control.signal }))
  await textOf(answer)
  control.abort()
  answer.abort()
  await textOf(await forward(attempt(target)))
  t.equal(backend.connections, 1)
})

t.test('a backend cut in mid-stream ends as cut, with nobody listening for errors', async (t) => {
  const cuts = [
    scripts.sse(['data: 1\n\n'], { end: 'cut' }),
    chat({ cut: true }),
    scripts.replay('llama-stream-usage-on.sse', { cutAfter: 900 }),
    scripts.replay('tf-stream-usage-on.sse', { cutAfter: 500 }),
    scripts.raw('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort'),
    scripts.raw('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort', { reset: true }),
    scripts.raw('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n'),
  ]
  for (const [i, script] of cuts.entries()) {
    const backend = await startBackend(t, script)
    const request = {
      path: '/chat/completions',
      headers: {},
      body: [Buffer.from('{"stream":true}')],
    }
    const answer = await forward(attempt(targetOf(backend.url), { request }))
    t.equal(answer.status, 200)
    answer.stream.resume()
    t.equal(await answer.ended, 'cut', `cut ${i}`)
    t.equal(backend.requests.length, 1, 'and is not asked again')
  }
})

t.test('an answer that ends only with its connection is whole', async (t) => {
  const backend = await startBackend(t, scripts.raw('HTTP/1.0 200 OK\r\n\r\nhello'))
  const answer = await forward(attempt(targetOf(backend.url)))
  t.equal(await textOf(answer), 'hello')
  t.equal(await answer.ended, 'whole')
})

t.test(
  'a backend that breaks before it answers is upstream_error, whatever it sends',
  async (t) => {
    const breaks = {
      reset: scripts.reset,
      garbage: scripts.garbage,
      midHeader: scripts.midHeader,
      closes: scripts.raw(''),
      'large headers': scripts.raw(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`),
      'two framings': scripts.raw(
        'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      ),
      'an unasked upgrade': scripts.raw(
        'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
      ),
    }
    for (const [name, script] of Object.entries(breaks)) {
      const backend = await startBackend(t, script)
      await t.rejects(
        forward(attempt(targetOf(backend.url))),
        { name: 'GatewayError', code: 'upstream_error', source: 'backend' },
        name,
      )
      t.equal(backend.requests.length, 1, `${name}: a fresh connection is never tried twice`)
    }
  },
)

t.test('informational answers are ignored', async (t) => {
  const early = 'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n'
  const final = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
  const backend = await startBackend(t, scripts.raw(early + final))
  const answer = await forward(attempt(targetOf(backend.url)))
  t.equal(answer.status, 200)
  t.equal(await textOf(answer), 'ok')
})

t.test('a reader that takes nothing slows the backend down', async (t) => {
  let written = 0
  const backend = await startBackend(t, async (call) => {
    call.res.writeHead(200)
    const piece = Buffer.alloc(1 << 16)
    while (!call.res.destroyed) {
      written += piece.length
      if (!call.res.write(piece)) await scripts.drained(call)
    }
  })
  const bound = 32 << 20
  const { stream, abort } = await forward(attempt(targetOf(backend.url)))
  const isFull = () => stream.readableLength >= stream.readableHighWaterMark
  await until(() => isFull() || written > bound)
  // Nobody reads, so the kernel's buffers fill up within these turns.
  for (let i = 0; i < 1000 && written < bound; i++) await new Promise(setImmediate)
  t.ok(written < bound, `${written} bytes`)
  abort()
})

t.test('a line of a gigabyte is refused when 8 MiB of it have come', async (t) => {
  const backend = await startBackend(t, scripts.longLine(2 ** 30))
  const answer = await forward(attempt(targetOf(backend.url)))
  const reader = new SseReader(8 << 20)
  let fed = 0
  let refusal: unknown
  for await (const part of answer.stream as AsyncIterable<Buffer>) {
    fed += part.length
    try {
      reader.feed(part, () => t.fail('an event'))
    } catch (error) {
      refusal = error
      break
    }
  }
  answer.abort()
  t.match(refusal, { code: 'upstream_error' })
  t.ok(fed >= 8 << 20 && fed < 9 << 20, `${fed} bytes were taken`)
  await (
    await backend.request(0)
  ).closed
})

t.test('an abort with our own reason reports that reason', async (t) => {
  const reason = new GatewayError('server_draining')
  t.equal(abortError(AbortSignal.abort(reason)), reason)
})

t.test('an abort without a reason means that the client has left', async (t) => {
  for (const signal of [AbortSignal.abort(), AbortSignal.abort(new Error('x'))]) {
    t.match(abortError(signal), { code: 'message_cancelled', source: 'client' })
  }
})

t.test(
  "a backend's socket errors are unavailable if nothing was reached, else broken",
  async (t) => {
    const failed = (code: string) => fromNodeError(Object.assign(new Error('x'), { code }))
    t.equal(failed('ECONNREFUSED').code, 'upstream_unavailable')
    t.equal(failed('ENOTFOUND').code, 'upstream_unavailable')
    t.equal(failed('ECONNRESET').code, 'upstream_error')
    t.equal(failed('ECONNRESET').source, 'backend')
    t.equal(fromNodeError(new Error('no code')).code, 'upstream_error')
    for (const code of ['EMFILE', 'ENFILE']) {
      t.match(failed(code), { code: 'overloaded', source: 'gateway', retry: true })
    }
  },
)
