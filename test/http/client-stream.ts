import type { ServerResponse } from 'node:http'
import t from 'tap'
import type { Test } from 'tap'
import { openClientStream } from '../../src/http/client-stream.ts'
import type { ClientStream, StreamLimits } from '../../src/http/client-stream.ts'
import { bothWays } from '../fixtures/both-ways.ts'
import { handClock } from '../fixtures/hand-clock.ts'
import { startListener } from '../fixtures/http-listener.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { unsentOf } from '../fixtures/unsent.ts'
import { until } from '../fixtures/until.ts'

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

interface Serving extends Partial<StreamLimits> {
  readonly headers?: readonly string[]
  readonly status?: number
}

interface Opened {
  readonly out: ClientStream
  readonly res: ServerResponse
}

/** Opens a stream for each request and leaves it to the test. */
async function serve(t: Test, serving: Serving = {}) {
  const { headers = [], status = 200, readerStallMs = 30_000, onDrop } = serving
  const streams: ((opened: Opened) => void)[] = []
  const listener = await startListener(t, (_req, res) => {
    const limits = { readerStallMs, onDrop }
    streams.shift()?.({ out: openClientStream(res, { status, headers, limits }), res })
  })
  return async (request = get) => {
    const { promise, resolve } = Promise.withResolvers<Opened>()
    streams.push(resolve)
    const client = await rawClient(t, listener.port)
    client.send(request)
    return { client, ...(await promise), next: () => void streams.push(resolve) }
  }
}

const test = bothWays(t, 'event-frames')

test('headers go out before the first byte', async (t) => {
  const { client, out } = await (await serve(t))()
  const { status, headers } = await client.head()
  t.equal(status, 200)
  t.equal(headers['transfer-encoding'], 'chunked')
  out.end()
})

test('each write is one chunk of exactly its bytes, and the connection is kept', async (t) => {
  const { client, out, next } = await (await serve(t))()
  const writes = [
    'data: 1\n\n',
    Buffer.from('data: é报😀\n\n').toString('latin1'),
    'a'.repeat(70_000),
  ]
  for (const bytes of writes) out.write(bytes)
  out.write('')
  out.end()
  const answer = await client.answer()
  t.same(answer.chunks, writes)
  t.equal(answer.headers.connection, 'keep-alive')
  next()
  client.send(get)
  t.equal((await client.head()).status, 200)
})

test('a Buffer is one chunk, too, in order, and is freed when it was sent', async (t) => {
  for (const request of [get, 'GET / HTTP/1.0\r\n\r\n']) {
    const { client, out } = await (await serve(t))(request)
    const large = Buffer.alloc(200_000, 'b')
    out.write('a')
    out.write(large)
    out.write('c')
    out.end()
    const { chunks, body } = await client.answer()
    if (request === get) t.same(chunks, ['a', 'b'.repeat(200_000), 'c'])
    t.equal(body.toString(), `a${'b'.repeat(200_000)}c`)
    t.equal(large.length, 0)
  }
})

test('HTTP/1.0 gets only the bytes, and the end by closing', async (t) => {
  for (const header of ['Connection: keep-alive', 'TE: chunked']) {
    const { client, out } = await (await serve(t))(`GET / HTTP/1.0\r\n${header}\r\n\r\n`)
    out.write('data: 1\n\n')
    out.end()
    const { body, headers } = await client.answer()
    t.equal(headers['transfer-encoding'], undefined, header)
    t.equal(body.toString(), 'data: 1\n\n')
    t.equal(headers.connection, 'close')
  }
})

test('with a known length nothing is framed', async (t) => {
  const { client, out } = await (await serve(t, { headers: ['content-length', '6'] }))()
  out.write('abc')
  out.write('def')
  out.end()
  const answer = await client.answer()
  t.equal(answer.body.toString(), 'abcdef')
  t.equal(answer.headers['transfer-encoding'], undefined)
})

test('HEAD gets only the head', async (t) => {
  const { client, out, next } = await (await serve(t))(get.replace('GET', 'HEAD'))
  out.write('data: 1\n\n')
  out.end()
  t.equal((await client.answer('HEAD')).status, 200)
  next()
  client.send(get)
  t.equal((await client.head()).status, 200)
})

test('a pipelined stream waits for its turn and loses nothing', async (t) => {
  const { promise: first, resolve: openFirst } = Promise.withResolvers<ClientStream>()
  const listener = await startListener(t, (req, res) => {
    const limits = { readerStallMs: 30_000 }
    const out = openClientStream(res, { status: 200, headers: [], limits })
    if (req.url === '/1') return openFirst(out)
    out.write('second')
    out.end()
  })
  const client = await rawClient(t, listener.port)
  client.send(get.replace('/', '/1'), get.replace('/', '/2'))
  const out = await first
  out.write('first')
  out.end()
  t.same((await client.answer()).chunks, ['first'])
  t.same((await client.answer()).chunks, ['second'])
})

const piece = 'a'.repeat(64 * 1024)

test('a slow client is waited for: memory stays limited, and everything arrives', async (t) => {
  const total = 600 * piece.length
  const { client, out } = await (await serve(t, { headers: ['Content-Length', `${total}`] }))()
  client.socket.pause()
  let written = 0
  const writer = async () => {
    for (; written < total; written += piece.length) if (!out.write(piece)) await out.drained()
    out.end()
  }
  const done = writer()
  for (let seen = -1, turns = 0; turns < 1000; turns = seen === written ? turns + 1 : 0) {
    seen = written
    await new Promise(setImmediate)
  }
  t.ok(written < 20_000_000, `it waits after ${written} bytes`)
  t.equal(out.left, false)
  client.socket.resume()
  await done
  t.equal((await client.answer()).body.length, total)
})

test('a client that reads nothing is dropped, and nobody waits for it any more', async (t) => {
  let dropped = 0
  const stalling = { readerStallMs: 100, onDrop: () => void dropped++ }
  const { client, out } = await (await serve(t, stalling))()
  client.socket.pause()
  while (!out.left) {
    if (!out.write(piece)) await Promise.all([out.drained(), out.drained()])
  }
  t.equal(dropped, 1)
  t.equal(out.write('more'), true, 'a gone client swallows')
  await out.drained()
  out.end()
})

test('a client that reads slowly is not dropped', async (t) => {
  const { pass } = handClock(t)
  const readerStallMs = 2000
  const { client, out, res } = await (await serve(t, { readerStallMs }))()
  client.socket.pause()
  out.write('a'.repeat(30_000_000))
  out.end()
  for (let sips = 0; sips < 5; sips++) {
    const before = unsentOf(res)
    await until(() => {
      client.socket.read()
      return unsentOf(res) !== before
    })
    pass(0.9 * readerStallMs)
    t.equal(out.left, false)
  }
  pass(1.2 * readerStallMs)
  t.equal(out.left, true, 'and when it takes no more, it goes')
  await until(() => res.closed)
})

test('a writer that does not wait is cut off before memory runs out', async (t) => {
  const { client, out } = await (await serve(t))()
  client.socket.pause()
  let written = 0
  while (!out.left && written < 200_000_000) {
    out.write(piece)
    written += piece.length
  }
  t.equal(out.left, true)
})

test('a client that leaves is seen to have left', async (t) => {
  const { client, out } = await (await serve(t))()
  t.equal(out.left, false)
  client.socket.destroy()
  while (!out.left) await new Promise(setImmediate)
  t.equal(out.write('a'), true)
  await out.drained()
  out.end()
})

test('a client that was served to the end has not left', async (t) => {
  const { client, out } = await (
    await serve(t)
  )('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  out.write('a')
  out.end()
  await client.answer()
  await client.ended()
  t.equal(out.left, false)
})

test('after the head of a 204, a 304 or a HEAD nothing is written', async (t) => {
  const headers = ['Content-Length', '5']
  const asks = [{ status: 204 }, { status: 304, headers }, { method: 'HEAD', headers }]
  for (const { method = 'GET', ...serving } of asks) {
    const ask = await serve(t, serving)
    const { client, out, next } = await ask(`${method} / HTTP/1.1\r\nHost: a\r\n\r\n`)
    await client.head()
    out.write('hello')
    out.end()
    next()
    client.send(`${get.trimEnd()}\r\nConnection: close\r\n\r\n`)
    client.socket.end()
    t.match(await client.ended(), /^(HTTP|$)/, `${method} ${serving.status ?? 200}`)
  }
})
