// Between the form and the store: back-pressure, and one end for both.

import type { Readable } from 'node:stream'
import t from 'tap'
import { outflow } from '../../../src/files/upload/outflow.ts'

const piece = Buffer.alloc(64 * 1024, 'x')

async function read(content: Readable): Promise<number> {
  let bytes = 0
  for await (const chunk of content) bytes += (chunk as Buffer).length
  return bytes
}

async function passForever(out: ReturnType<typeof outflow>): Promise<never> {
  for (;;) await out.pass(piece)
}

t.test('bytes that are passed arrive, and end when they are ended', async (t) => {
  const stop = new AbortController()
  let arrived = 0
  const out = outflow(async (content) => void (arrived = await read(content)), stop)
  for (let count = 0; count < 20; count++) await out.pass(piece)
  t.equal(arrived, 0, 'not before')
  await out.end()
  t.equal(arrived, 20 * piece.length)
  t.notOk(stop.signal.aborted)
})

t.test('a store that takes nothing stops the sender, until it does', async (t) => {
  const start = Promise.withResolvers<void>()
  const out = outflow(async (content) => {
    await start.promise
    await read(content)
  }, new AbortController())
  let passed = 0
  const all = (async () => {
    for (; passed < 10; passed++) await out.pass(piece)
    await out.end()
  })()
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  t.equal(passed, 0, 'the first piece fills it')
  start.resolve()
  await all
  t.equal(passed, 10)
})

t.test('a store that fails stops the sender with its error', async (t) => {
  for (const when of ['at once', 'later', 'by throwing']) {
    const stop = new AbortController()
    const broken = new Error(`broken ${when}`)
    const put = (content: Readable): Promise<void> => {
      if (when === 'by throwing') throw broken
      if (when === 'at once') return Promise.reject(broken)
      return new Promise((_, reject) => content.once('data', () => reject(broken)))
    }
    const out = outflow(put, stop)
    await t.rejects(passForever(out), broken)
    t.equal(stop.signal.reason, broken)
    await t.rejects(out.stored, broken)
  }
})

t.test('a store that destroys the content and then says why is heard', async (t) => {
  const stop = new AbortController()
  const out = outflow(async (content) => {
    content.once('data', () => content.destroy())
    await new Promise((resolve) => content.once('close', resolve))
    throw new Error('disk full')
  }, stop)
  await t.rejects(passForever(out), { message: 'disk full' })
})

t.test('a store that is done before the file has ended is an error, not a hang', async (t) => {
  const stop = new AbortController()
  const out = outflow(async () => {}, stop)
  await t.rejects(passForever(out), { message: /before the file has ended/ })
})

t.test('a stop reaches the store, also one that waits; then no end does', async (t) => {
  const stop = new AbortController()
  const out = outflow((content) => read(content).then(() => {}), stop)
  await out.pass(piece)
  const cause = new Error('left')
  stop.abort(cause)
  await t.rejects(out.stored, cause)
  await t.rejects(out.pass(piece), cause)
  await t.rejects(out.end(), cause)
})

t.test('a stop wakes a sender that waits for the store', async (t) => {
  const stop = new AbortController()
  const never = Promise.withResolvers<void>()
  const out = outflow((content) => {
    content.once('error', (error) => never.reject(error))
    return never.promise
  }, stop)
  const waiting = out.pass(piece)
  const cause = new Error('drain')
  stop.abort(cause)
  await t.rejects(waiting, cause)
})
