import t from 'tap'
import type { Test } from 'tap'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { GatewayError, asGatewayError } from '../../src/errors.ts'
import { hasLeft, sendAnswer, sendError } from '../../src/http/reply.ts'
import type { ReplyOptions } from '../../src/http/reply.ts'
import { bothWays } from '../fixtures/both-ways.ts'
import { Counted, pattern } from '../fixtures/counted.ts'
import { handClock } from '../fixtures/hand-clock.ts'
import { startListener } from '../fixtures/http-listener.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import type { RawClient } from '../fixtures/raw-http.ts'
import { until } from '../fixtures/until.ts'

const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'
const x = { id: 'req_test', replyHeaders: {} }

interface Serving extends Partial<Omit<ReplyOptions, 'answer'>> {
  readonly length?: number
  readonly status?: number
  /** Runs before the answer is sent. */
  readonly before?: (res: ServerResponse) => Promise<unknown>
}

interface Served {
  connect(): Promise<RawClient>
  /** What `sendAnswer` threw for the first answer, and whether the client had left by then. */
  readonly ended: Promise<{ readonly thrown?: unknown; readonly left: boolean }>
}

/** Answers each request with the next content; refusals are sent as the gateway does. */
async function serve(t: Test, sources: readonly Counted[], serving: Serving = {}): Promise<Served> {
  const { length, status = 200, before, ...rest } = serving
  const { promise: ended, resolve } = Promise.withResolvers<Awaited<Served['ended']>>()
  let next = 0
  const onRequest = async (_req: IncomingMessage, res: ServerResponse) => {
    const isFirst = next === 0
    const content = sources[next++] ?? new Counted(whole)
    await before?.(res)
    const headers = { 'Content-Length': String(length ?? whole) }
    const sending = { limits: { readerStallMs: 30_000 }, ...rest }
    try {
      await sendAnswer(res, x, { ...sending, answer: { status, headers, content } })
      if (isFirst) resolve({ left: hasLeft(res) })
    } catch (thrown) {
      if (isFirst) resolve({ thrown, left: hasLeft(res) })
      sendError(res, x, asGatewayError(thrown))
    }
  }
  const listener = await startListener(t, onRequest)
  return { connect: () => rawClient(t, listener.port), ended }
}

const whole = 1_000_003
/** More than the kernel buffers for a client that reads nothing. */
const long = 64 * 1024 * 1024

t.test('content arrives byte for byte, and the connection is used again', async (t) => {
  const sources = [new Counted(whole), new Counted(whole)]
  const { connect, ended } = await serve(t, sources)
  const one = await connect()
  for (const source of sources) {
    const { status, headers, body } = await one.ask(get)
    t.equal(status, 200)
    t.equal(headers.connection, 'keep-alive')
    t.equal(headers['x-request-id'], 'req_test')
    t.equal(headers['transfer-encoding'], undefined)
    t.ok(body.equals(pattern(0, whole)))
    t.ok(source.destroyed)
  }
  t.same(await ended, { left: false })
})

bothWays(t, 'freed-buffers')('what was sent is freed, unless it is shared', async (t, isPlain) => {
  const own = Buffer.alloc(70_000, 'a')
  const shared = Buffer.alloc(70_000, 'b')
  const content = Readable.from([own, shared.subarray(0, 69_999)])
  const listener = await startListener(t, (_req, res) => {
    const headers = { 'Content-Length': '139999' }
    const limits = { readerStallMs: 30_000 }
    return sendAnswer(res, x, { answer: { status: 200, headers, content }, limits })
  })
  const one = await rawClient(t, listener.port)
  t.equal((await one.ask(get)).body.toString(), 'a'.repeat(70_000) + 'b'.repeat(69_999))
  if (isPlain) t.equal(own.toString(), 'a'.repeat(70_000))
  else await until(() => own.length === 0)
  t.equal(shared.toString(), 'b'.repeat(70_000))
})

t.test('HEAD has the length and no body, and nothing is read', async (t) => {
  const source = new Counted(whole)
  const { connect } = await serve(t, [source, new Counted(whole)])
  const one = await connect()
  one.send(get.replace('GET', 'HEAD'), get)
  t.equal((await one.answer('HEAD')).headers['content-length'], String(whole))
  t.ok((await one.answer()).body.equals(pattern(0, whole)))
  t.ok(source.destroyed)
  t.equal(source.taken, 0)
})

t.test('HTTP/1.0 gets the same bytes, and their end is the connection', async (t) => {
  const { connect } = await serve(t, [new Counted(whole)])
  const one = await connect()
  const { headers, body } = await one.ask('GET / HTTP/1.0\r\n\r\n')
  t.equal(headers.connection, 'close')
  t.ok(body.equals(pattern(0, whole)))
  t.equal(await one.ended(), '')
})

t.test('a client that reads nothing for a while holds the content back', async (t) => {
  const source = new Counted(long)
  const { connect } = await serve(t, [source], { length: long })
  const one = await connect()
  one.socket.pause()
  one.send(get)
  // The content is held back if it has not moved between two looks.
  let before = -1
  await until(() => {
    const still = source.taken > 0 && source.taken === before
    before = source.taken
    return still
  })
  t.ok(source.taken < long / 2, `${source.taken} bytes read`)
  one.socket.resume()
  t.ok((await one.answer()).body.equals(pattern(0, long)))
})

t.test('a client that leaves ends the content, also while the content is silent', async (t) => {
  for (const source of [new Counted(long), new Counted(long, { stallsAt: 100_000 })]) {
    const { connect, ended } = await serve(t, [source], { length: long })
    const one = await connect()
    one.send(get)
    await one.head()
    one.socket.destroy()
    t.same(await ended, { left: true })
    t.ok(source.destroyed)
  }
})

/** Reports when all of it was read, and closes only when it is allowed to. */
class Closing extends Counted {
  readonly wasRead = Promise.withResolvers<void>()
  readonly mayClose = Promise.withResolvers<void>()

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.wasRead.resolve()
    void this.mayClose.promise.then(() => super._destroy(error, done))
  }
}

t.test('a client that counts its bytes and closes has not left too early', async (t) => {
  const source = new Closing(whole)
  const { connect, ended } = await serve(t, [source])
  const one = await connect()
  one.send(get)
  await source.wasRead.promise
  await until(() => one.socket.bytesRead > whole - 2 * 64 * 1024)
  for (let turns = 0; turns < 100; turns++) await new Promise(setImmediate)
  t.ok(one.socket.bytesRead < whole, 'it has no reason to leave before the content has closed')
  source.mayClose.resolve()
  t.equal((await one.answer()).body.length, whole)
  one.socket.destroy()
  t.match(await ended, { left: false })
})

t.test('a client that leaves while the content closes is not waited for', async (t) => {
  const source = new Closing(whole)
  const before = async (res: ServerResponse) => res.once('close', () => source.mayClose.resolve())
  const { connect, ended } = await serve(t, [source], { before })
  const one = await connect()
  one.send(get)
  await source.wasRead.promise
  one.socket.destroy()
  t.match(await ended, { left: true })
})

t.test('content whose client left before the answer began is never read', async (t) => {
  const source = new Counted(whole)
  const before = (res: ServerResponse) => once(res, 'close')
  const { connect, ended } = await serve(t, [source], { before })
  const one = await connect()
  one.send(get)
  one.socket.destroy()
  t.same(await ended, { left: true })
  t.ok(source.destroyed)
  t.equal(source.taken, 0)
})

t.test('content whose answer cannot be written is destroyed', async (t) => {
  const source = new Counted(whole)
  const { connect, ended } = await serve(t, [source], { status: 99 })
  const one = await connect()
  t.equal((await one.ask(get)).status, 503)
  t.match(await ended, { thrown: { cause: { code: 'ERR_HTTP_INVALID_STATUS_CODE' } } })
  t.ok(source.destroyed)
})

t.test('a client that takes nothing for too long is dropped, with the content', async (t) => {
  const source = new Counted(long)
  let dropped = 0
  const limits = { readerStallMs: 100, onDrop: () => void dropped++ }
  const { connect, ended } = await serve(t, [source], { length: long, limits })
  const one = await connect()
  one.socket.pause()
  one.send(get)
  t.same(await ended, { left: true })
  t.ok(source.destroyed)
  t.equal(dropped, 1)
})

t.test('content that pauses longer than a reader may is not a stuck reader', async (t) => {
  const { pass } = handClock(t)
  const source = new Counted(whole, { stallsAt: 100_000 })
  let dropped = 0
  const limits = { readerStallMs: 50, onDrop: () => void dropped++ }
  const { connect, ended } = await serve(t, [source], { limits })
  const one = await connect()
  one.send(get)
  await one.head()
  pass(200)
  t.equal(dropped, 0)
  t.notOk(source.destroyed)
  one.socket.destroy()
  await ended
})

t.test('content that is broken, too short or too long never looks whole', async (t) => {
  for (const [source, message] of [
    [new Counted(whole, { breaksAt: 700_000 }), 'the disk is gone'],
    [new Counted(whole - 1), `the content is 1 bytes shorter than ${whole}`],
    [new Counted(whole + 1), `the content is longer than ${whole} bytes`],
    [new Counted(long), `the content is longer than ${whole} bytes`],
  ] as const) {
    const { connect, ended } = await serve(t, [source])
    const one = await connect()
    // The answer of the second request must not be taken for the rest of the first one.
    one.send(get, get)
    await t.rejects(one.answer(), message)
    t.match(await ended, {
      thrown: { code: 'storage_unavailable', cause: { message } },
      left: false,
    })
    t.ok(source.destroyed)
  }
})

t.test('content that breaks before its first byte is refused; the connection stays', async (t) => {
  const sources = [new Counted(whole, { breaksAt: 0 }), new Counted(0), new Counted(whole)]
  const { connect } = await serve(t, sources)
  const one = await connect()
  one.send(get, get, get)
  for (const cause of ['the disk is gone', 'it is empty']) {
    const { status, json } = await one.answer()
    t.equal(status, 503, cause)
    t.equal(json.error?.code, 'storage_unavailable', cause)
  }
  t.equal((await one.answer()).body.length, whole)
})

t.test('empty content is content, too', async (t) => {
  const { connect } = await serve(t, [new Counted(0)], { length: 0 })
  const one = await connect()
  const { status, headers, body } = await one.ask(get)
  t.equal(status, 200)
  t.equal(headers['content-length'], '0')
  t.equal(body.length, 0)
})

t.test('pipelined answers wait for a download, and downloads for their turn', async (t) => {
  const sources = [new Counted(long), new Counted(whole)]
  const [first, second] = sources as [Counted, Counted]
  const lengths = [long, whole]
  const listener = await startListener(t, async (_req, res) => {
    const headers = { 'Content-Length': String(lengths.shift()) }
    const content = sources.shift() ?? new Counted(0)
    const answer = { status: 200, headers, content }
    await sendAnswer(res, x, { answer, limits: { readerStallMs: 30_000 } })
  })
  const one = await rawClient(t, listener.port)
  one.socket.pause()
  one.send(get, get)
  await until(() => second.taken > 0)
  one.socket.resume()
  t.ok((await one.answer()).body.equals(pattern(0, long)))
  t.ok((await one.answer()).body.equals(pattern(0, whole)))
  t.ok(first.destroyed && second.destroyed)
})

t.test('a client that leaves while its download waits for its turn ends it', async (t) => {
  const sources = [new Counted(long, { stallsAt: 1 }), new Counted(long)]
  const { connect } = await serve(t, sources, { length: long })
  const one = await connect()
  one.send(get, get)
  await one.head()
  await until(() => (sources[1]?.taken ?? 0) > 0)
  t.ok((sources[1]?.taken ?? 0) <= 256 * 1024, 'little is read ahead')
  one.socket.destroy()
  await until(() => sources.every((source) => source.destroyed))
})

t.test('a signal cuts the content, even if it is silent or stuck', async (t) => {
  for (const stallsAt of [100_000, Infinity]) {
    const source = new Counted(long, { stallsAt })
    const controller = new AbortController()
    const { signal } = controller
    const { connect, ended } = await serve(t, [source], { length: long, signal })
    const one = await connect()
    one.send(get)
    await one.head()
    one.socket.pause()
    controller.abort(new GatewayError('server_draining'))
    t.match(await ended, { thrown: { code: 'server_draining' }, left: false })
    t.ok(source.destroyed)
  }
})

t.test('a small download that waits for its turn is not taken yet', async (t) => {
  const contents = [new Counted(long, { stallsAt: 1 }), new Counted(5)]
  const { promise: second, resolve } = Promise.withResolvers<boolean>()
  const listener = await startListener(t, async (_req, res) => {
    const content = contents.shift() ?? new Counted(0)
    const headers = { 'Content-Length': contents.length === 0 ? '5' : String(long) }
    const answer = { status: 200, headers, content }
    if (contents.length === 0) content.on('end', () => one.socket.destroy())
    await sendAnswer(res, x, { answer, limits: { readerStallMs: 30_000 } })
    if (contents.length === 0) resolve(hasLeft(res))
  })
  const one = await rawClient(t, listener.port)
  one.send(get, get)
  t.equal(await second, true)
})

t.test('content that fails while it is destroyed does not end the process', async (t) => {
  for (const method of ['GET', 'HEAD']) {
    const content = new Readable({
      read: () => one.socket.destroy(),
      destroy: (_error, done) => void setImmediate(done, new Error('cannot be closed')),
    })
    const { promise: ended, resolve } = Promise.withResolvers<void>()
    const listener = await startListener(t, async (_req, res) => {
      const answer = { status: 200, headers: { 'Content-Length': '5' }, content }
      await sendAnswer(res, x, { answer, limits: { readerStallMs: 30_000 } })
      resolve()
    })
    const one = await rawClient(t, listener.port)
    one.send(get.replace('GET', method))
    await ended
    await until(() => content.closed)
  }
})

t.test('after a request whose long body nobody read, its download closes it', async (t) => {
  const { connect } = await serve(t, [new Counted(whole)])
  const one = await connect()
  const { headers, body } = await one.ask(
    'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n',
    'a'.repeat(500_000),
  )
  t.equal(headers.connection, 'close')
  t.ok(body.equals(pattern(0, whole)))
  t.equal(await one.ended(), '', 'no reset')
})
