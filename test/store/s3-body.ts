// src/store/s3-body.ts: a body ends as its source does, never in silence, and does not read ahead of its reader.

import { once } from 'node:events'
import { Socket } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { mock } from 'node:test'
import t from 'tap'
import { bodyFrom } from '../../src/store/s3-body.ts'
import { bothWays } from '../fixtures/both-ways.ts'
import { until } from '../fixtures/until.ts'

const test = bothWays(t, 'freed-reads')

const unavailable = { code: 'storage_unavailable' }

test('it gives the whole body, and its end', async (t) => {
  const source = new PassThrough()
  const body = bodyFrom(source, { idleMs: 10_000 })
  source.write('some ')
  source.end('text')
  t.equal(await text(body), 'some text')
  t.ok(source.destroyed)
})

t.test('an error, or a premature end, is a failure of the store', async (t) => {
  const broken = new PassThrough()
  const body = bodyFrom(broken, { idleMs: 10_000 })
  broken.destroy(new Error('reset'))
  await t.rejects(text(body), { ...unavailable, cause: { message: 'reset' } })
  const cut = new PassThrough()
  const other = bodyFrom(cut, { idleMs: 10_000 })
  cut.write('x')
  await once(other, 'readable')
  cut.destroy()
  await t.rejects(text(other), unavailable)
})

t.test('silence is a failure only while the reader waits for bytes', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const source = new PassThrough({ highWaterMark: 2 ** 24 })
  const body = bodyFrom(source, { idleMs: 60 })
  for (let i = 0; i < 16; i++) source.write(Buffer.alloc(64 * 1024))
  await once(body, 'readable')
  await until(() => source.isPaused())
  mock.timers.tick(200)
  t.notOk(body.destroyed, 'nobody has read')
  t.ok(body.readableLength < 2 ** 20, 'and it was not all taken')
  const all = text(body)
  await until(() => source.readableLength + body.readableLength === 0)
  mock.timers.tick(59)
  t.notOk(body.destroyed)
  mock.timers.tick(1)
  await t.rejects(all, { ...unavailable, cause: { message: /nothing for 60 ms/ } })
  t.ok(source.destroyed)
})

t.test('destroying it destroys the source, and leaves no timer', async (t) => {
  const source = new PassThrough()
  const body = bodyFrom(source, { idleMs: 2 ** 30 })
  source.write('x')
  await once(body, 'readable')
  body.destroy()
  await once(body, 'close')
  t.ok(source.destroyed)
  t.equal(body.errored, null)
})

test("memory from the socket is freed when the parser has copied it, never the body's own memory", async (t, isPlain) => {
  for (const isCopying of [true, false]) {
    const socket = new Socket()
    const source = Object.assign(new Readable({ read() {} }), { socket })
    // As Node's parser does, before any other listener gets the bytes.
    socket.on('data', (chunk: Buffer) => source.push(isCopying ? Buffer.from(chunk) : chunk))
    const body = bodyFrom(source, { idleMs: 30_000 })
    const chunks = [1, 2, 3].map((n) => Buffer.from(new Uint8Array(1000).fill(n).buffer))
    const got: Buffer[] = []
    body.on('data', (chunk: Buffer) => got.push(Buffer.from(chunk)))
    for (const chunk of chunks) {
      socket.emit('data', chunk)
      await new Promise(setImmediate)
    }
    source.push(null)
    await once(body, 'end')
    t.same(
      got.map(({ length, 0: first, [999]: last }) => [length, first, last]),
      [1, 2, 3].map((n) => [1000, n, n]),
    )
    t.equal(chunks.at(-1)?.length, isCopying && !isPlain ? 0 : 1000)
  }
})
