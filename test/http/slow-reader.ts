import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { connect as connectTcp } from 'node:net'
import { connect } from 'node:tls'
import t from 'tap'
import type { Test } from 'tap'
import { shareOf, watchReader } from '../../src/http/slow-reader.ts'
import type { ReaderLimits } from '../../src/http/slow-reader.ts'
import { SharedPool } from '../../src/sharing/shared-pool.ts'
import { bothWays } from '../fixtures/both-ways.ts'
import { certificate } from '../fixtures/certificate.ts'
import { handClock } from '../fixtures/hand-clock.ts'
import { startListener } from '../fixtures/http-listener.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { unsentOf } from '../fixtures/unsent.ts'
import { until } from '../fixtures/until.ts'

const MiB = 2 ** 20
/** More than the system buffers for a client that reads nothing. */
const long = 'x'.repeat(24 * MiB)

/** Answers with `long` in one write, as lists and whole answers of backends are sent. */
async function serve(t: Test, limits: ReaderLimits, tls?: { cert: string; key: string }) {
  const answers: ServerResponse[] = []
  const answer = (_req: unknown, res: ServerResponse) => {
    answers.push(res)
    res.end(long)
    watchReader(res, limits)()
  }
  const listen = { host: '127.0.0.1', port: 0, trustedProxies: [], ...(tls && { tls }) }
  const { port } = await startListener(t, answer, { listen })
  return {
    answers,
    port,
    async ask() {
      const client = await rawClient(t, port)
      client.socket.pause()
      client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      return client
    },
  }
}

const readerStallMs = 1000

const test = bothWays(t, 'write-queue')

test('a client that reads nothing is dropped, once', async (t) => {
  let dropped = 0
  const { answers, ask } = await serve(t, { readerStallMs: 50, onDrop: () => void dropped++ })
  await ask()
  await until(() => answers[0]?.closed === true)
  t.equal(dropped, 1)
})

test('a client that has read everything is not dropped, and the next answer is free of the limit', async (t, isPlain) => {
  const clock = isPlain ? undefined : handClock(t)
  const answers: ServerResponse[] = []
  let dropped = 0
  const { port } = await startListener(t, (_req, res) => {
    answers.push(res)
    res.write('some')
    if (answers.length > 1) return
    watchReader(res, { readerStallMs: 20, onDrop: () => void dropped++ })()
  })
  const client = await rawClient(t, port)
  client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => answers.length === 2)
  const [first, second] = answers
  if (!first) throw new TypeError('there are two')
  await client.text('some')
  if (clock) clock.pass(1000)
  else await once(first, 'timeout')
  t.equal(dropped, 0)
  first.end()
  await until(() => first.closed && Boolean(second?.socket))
  t.notOk(second?.socket?.timeout)
  second?.end()
  await until(() => second?.closed === true)
})

t.test('who takes nothing is dropped after the stall time, a fifth late at most', async (t) => {
  const { pass } = handClock(t)
  let dropped = 0
  const { answers, ask } = await serve(t, { readerStallMs, onDrop: () => void dropped++ })
  await ask()
  await until(() => answers.length === 1)
  pass(readerStallMs - 1)
  t.equal(answers[0]?.destroyed, false)
  pass(readerStallMs / 5 + 1)
  t.equal(answers[0]?.destroyed, true)
  t.equal(dropped, 1)
  await until(() => answers[0]?.closed === true)
})

interface Sipping {
  readonly answers: readonly ServerResponse[]
  pass(ms: number): void
}

/** Reads a little within each stall time, for five of them. */
async function sip(t: Test, socket: Socket, { answers, pass }: Sipping): Promise<void> {
  let read = 0
  for (let sips = 0; sips < 5; sips++) {
    const before = unsentOf(answers[0])
    await until(() => {
      read += (socket.read() as Buffer | null)?.length ?? 0
      return unsentOf(answers[0]) !== before
    })
    pass(readerStallMs - 1)
    t.equal(answers[0]?.destroyed, false)
  }
  t.ok(read < long.length, 'it had not taken all')
  pass(1.2 * readerStallMs)
  t.equal(answers[0]?.destroyed, true, 'and when it takes no more, it goes')
  await until(() => answers[0]?.closed === true)
}

t.test('a client that reads a little of one large write now and then is not dropped', async (t) => {
  const { pass } = handClock(t)
  const { answers, ask } = await serve(t, { readerStallMs })
  const client = await ask()
  await until(() => answers.length === 1)
  await sip(t, client.socket, { answers, pass })
})

t.test('neither is one that does so over TLS', async (t) => {
  const { pass } = handClock(t)
  const { answers, port } = await serve(t, { readerStallMs }, certificate)
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false })
  socket.on('error', () => undefined)
  t.teardown(() => void socket.destroy())
  await once(socket, 'secureConnect')
  socket.pause()
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => answers.length === 1)
  await sip(t, socket, { answers, pass })
})

test('unread bytes stay within the share of clients, and are given back', async (t) => {
  const pool = new SharedPool(80 * MiB)
  const unsent = shareOf(pool, 'a')
  const { answers, ask } = await serve(t, { readerStallMs: 60_000, unsent })
  const first = await ask()
  await until(() => answers.length === 1)
  const held = pool.used
  t.ok(held > 16 * MiB && held <= long.length + 1000, `${held}`)
  await ask()
  await until(() => answers.length === 2)
  t.equal(answers[1]?.destroyed, true, 'the second does not fit')
  t.equal(pool.used, held)
  t.ok(shareOf(pool, 'b').take(16 * MiB), 'others have theirs')
  shareOf(pool, 'b').give(16 * MiB)
  first.socket.destroy()
  await until(() => pool.used === 0)
})

test('bytes that a client reads in the end are given back, and its connection is kept', async (t) => {
  const pool = new SharedPool(80 * MiB)
  const unsent = shareOf(pool, 'a')
  const answers: ServerResponse[] = []
  const measures: (() => void)[] = []
  const { port } = await startListener(t, (_req, res) => {
    answers.push(res)
    res.write(long)
    measures.push(watchReader(res, { readerStallMs: 60_000, unsent }))
    measures[0]?.()
  })
  const client = connectTcp({ port, host: '127.0.0.1' })
  t.teardown(() => void client.destroy())
  client.pause()
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => answers.length === 1)
  t.ok(pool.used > 16 * MiB)
  const [answer] = answers
  client.resume()
  await until(() => answer?.writableLength === 0)
  measures[0]?.()
  t.equal(pool.used, 0)
})

test('an answer after another one waits for that, and is not dropped', async (t) => {
  const { pass } = handClock(t)
  const answers: ServerResponse[] = []
  const { port } = await startListener(t, (_req, res) => {
    answers.push(res)
    if (answers.length === 1) return
    res.end('second')
    watchReader(res, { readerStallMs: 50 })()
  })
  const client = await rawClient(t, port)
  client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n')
  await until(() => answers.length === 2)
  pass(200)
  t.equal(answers[1]?.destroyed, false)
  answers[0]?.end('first')
  await client.text('second')
  await until(() => answers[1]?.closed === true)
})
