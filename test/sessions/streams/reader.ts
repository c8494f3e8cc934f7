// One client that reads a stream: it gets exactly what follows its place, from memory and from Redis, with one
// terminal, and affects no other reader.

import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import type { Exchange } from '../../../src/exchange.ts'
import { newId } from '../../../src/ids.ts'
import { FrameLog } from '../../../src/sessions/streams/frame-log.ts'
import { Reader, Readers } from '../../../src/sessions/streams/reader.ts'
import type { ReaderOptions } from '../../../src/sessions/streams/reader.ts'
import type { StreamRows } from '../../../src/sessions/streams/stream-rows.ts'
import { createSlots } from '../../../src/sharing/slots.ts'
import { SharedPool } from '../../../src/sharing/shared-pool.ts'
import { handClock } from '../../fixtures/hand-clock.ts'
import { Client, framesOf, openStreams } from '../../fixtures/stream.ts'
import { seeded } from '../../fixtures/random.ts'
import { until } from '../../fixtures/until.ts'

const retry = 'retry: 1000\n'

interface Reading {
  readonly log: FrameLog
  readonly from?: number
  readonly heartbeatMs?: number
  stored?: ReaderOptions['stored']
}

function read(t: Test, { log, from = 0, heartbeatMs = 60_000, stored }: Reading) {
  const client = new Client()
  const reader = new Reader(client, {
    log,
    from,
    heartbeatMs,
    stored: stored ?? (async () => undefined),
    afterLost: (seq) => ({ text: `terminal ${seq}\n\n`, next: seq + 1 }),
  })
  t.teardown(() => reader.stop())
  const how = reader.run().then(
    () => 'ended',
    () => 'cut',
  )
  return { client, reader, how }
}

const logOf = (next = 0, message = newId('msg')) =>
  new FrameLog(message, { next, maxBytes: 1 << 20 })

t.test('readers at any place, fast and slow, get byte for byte what follows', async (t) => {
  const { rows, start } = await openStreams(t)
  const random = seeded(7)
  for (let round = 0; round < 8; round++) {
    const owned = await start()
    const count = 20 + random(300)
    const data = Array.from({ length: count }, (_, i) =>
      'id: x\n'.repeat(random(3)).concat(`${i}`, 'é'.repeat(random(2000))),
    )
    const frames = framesOf(owned.message, data).map((one) => Buffer.from(one).toString('latin1'))
    const log = new FrameLog(owned.message, { next: 0, maxBytes: 300_000 })
    const readings: { from: number; client: Client; how: Promise<string> }[] = []
    while (log.next < count) {
      const first = log.next
      const next = Math.min(count, first + 1 + random(9))
      const text = frames.slice(first, next).join('')
      log.add(text, next)
      await rows.append(owned, { first, count: next - first, text })
      log.stored(next)
      const from = random(next + 1)
      const stored = (seq: number) => rows.frameBytes(owned, seq, 2)
      const { client, how } = read(t, { log, from, stored })
      if (random(2) === 0) client.room = random(20_000)
      readings.push({ from, client, how })
    }
    log.end()
    for (const { client } of readings) client.take()
    for (const { from, client, how } of readings) {
      t.equal(await how, 'ended')
      const text = frames.slice(from).join('')
      t.ok(client.text === (text && retry + text), `round ${round}, from ${from} of ${count}`)
    }
  }
})

t.test('a slow reader gets nothing until it has taken; no other waits for it', async (t) => {
  const log = logOf()
  const frames = framesOf(
    log.message,
    Array.from({ length: 100 }, () => 'x'.repeat(100)),
  )
  const slow = read(t, { log })
  slow.client.room = 10
  const quick = read(t, { log })
  frames.forEach((frame, i) => log.add(frame, i + 1))
  log.end()
  t.equal(await quick.how, 'ended')
  t.equal(quick.client.text, retry + frames.join(''))
  t.equal(slow.client.text, retry + frames[0])
  slow.client.take()
  t.equal(await slow.how, 'ended')
  t.equal(slow.client.text, quick.client.text)
})

t.test('one behind memory reads from Redis; a place that is gone cuts it', async (t) => {
  const log = logOf(2)
  const frames = framesOf(log.message, ['a', 'b', 'c', 'd'])
  const asked: number[] = []
  const stored = async (seq: number) => {
    asked.push(seq)
    return { bytes: Buffer.from(frames[seq] ?? '', 'latin1'), next: seq + 1, isEnd: false }
  }
  const behind = read(t, { log, stored })
  log.add(frames.slice(2).join(''), 4)
  log.end()
  t.equal(await behind.how, 'ended')
  t.same(asked, [0, 1])
  t.equal(behind.client.text, retry + frames.join(''))
  t.equal(await read(t, { log }).how, 'cut')
  const nothing = async (seq: number) => ({ bytes: Buffer.alloc(0), next: seq, isEnd: false })
  t.equal(await read(t, { log, stored: nothing }).how, 'cut', 'forgotten behind its back')
  const away = () => Promise.reject(new Error('Redis is away'))
  t.equal(await read(t, { log, stored: away }).how, 'cut')
})

t.test('one that has got an end from Redis gets nothing more, whatever the log has', async (t) => {
  const { pass } = handClock(t, 'setTimeout')
  const log = logOf(2)
  const stored = async () => ({ bytes: Buffer.from('the end'), next: 2, isEnd: true })
  const { client, how } = read(t, { log, stored, heartbeatMs: 10 })
  client.room = 1
  while (client.text === '') await new Promise(setImmediate)
  pass(100)
  await nextTurn()
  log.add('c', 3)
  client.take()
  t.equal(await how, 'ended')
  t.equal(client.text, `${retry}the end`)
})

t.test('a log that breaks cuts its readers off, behind all that there was', async (t) => {
  const log = logOf()
  const { client, how } = read(t, { log })
  log.add('a', 1)
  log.break()
  t.equal(await how, 'cut')
  t.equal(client.text, `${retry}a`)
})

t.test('a reader ahead of a lost stream gets the terminal alone, as its next', async (t) => {
  for (const from of [6, 7, 100]) {
    const log = logOf(5)
    const { client, how } = read(t, { log, from })
    log.add('the terminal', 6)
    log.end({ isLost: true })
    t.equal(await how, 'ended')
    t.equal(client.text, `${retry}terminal ${from}\n\n`)
  }
  const log = logOf(5)
  const { client, how } = read(t, { log, from: 5 })
  log.add('the terminal', 6)
  log.end({ isLost: true })
  t.equal(await how, 'ended')
  t.equal(client.text, `${retry}the terminal`, 'no second one')
})

t.test('a place that an honest stream never came to is told no false end', async (t) => {
  const log = logOf(5)
  const { client, how } = read(t, { log, from: 7 })
  log.add('the terminal', 6)
  log.end()
  t.equal(await how, 'cut')
  t.equal(client.text, '')
})

t.test('a silent stream gets comments, an active one does not', async (t) => {
  const log = logOf()
  const { client, reader, how } = read(t, { log, heartbeatMs: 30 })
  await until(() => client.text.length > 0)
  t.equal(client.text, ':\n')
  const { length } = client.text
  log.add('a', 1)
  t.equal(client.text.slice(length), `${retry}a`, 'retry goes with the first block')
  reader.stop()
  t.equal(await how, 'ended')
  t.equal(client.text.slice(length), `${retry}a`)
})

t.test('nothing follows the terminal, however slow the client is', async (t) => {
  const log = logOf()
  const { client, how } = read(t, { log, heartbeatMs: 5 })
  const fast = read(t, { log, heartbeatMs: 5 })
  client.room = 3
  log.add('terminal', 1)
  log.end()
  t.equal(await fast.how, 'ended')
  const other = read(t, { log: logOf(), heartbeatMs: 5 })
  await until(() => other.client.text.length > 20)
  t.equal(client.text, `${retry}terminal`)
  client.take()
  t.equal(await how, 'ended')
  t.equal(client.text, `${retry}terminal`)
})

t.test('a client that has left gets nothing more, and its reader ends', async (t) => {
  const log = logOf()
  const { client, how } = read(t, { log })
  client.left = true
  log.add('a', 1)
  t.equal(await how, 'ended')
  t.equal(client.text, '')
  const cut = read(t, { log: logOf() })
  cut.reader.cut()
  t.equal(await cut.how, 'cut')
})

t.test('who has left is given no more comments, and nor is who has the end', async (t) => {
  const { pass } = handClock(t, 'setTimeout')
  const leaver = read(t, { log: logOf(), heartbeatMs: 1000 })
  for (const beats of [':\n', ':\n:\n']) {
    pass(1000)
    await nextTurn()
    t.equal(leaver.client.text, beats)
  }
  leaver.reader.stop()
  const cut = read(t, { log: logOf(), heartbeatMs: 1000 })
  cut.reader.cut()
  t.equal(await cut.how, 'cut')
  pass(5000)
  await nextTurn()
  t.equal(leaver.client.text, ':\n:\n')
  t.equal(cut.client.text, '')
})

const newExchange = () => ({}) as unknown as Exchange

/** Readers of whom an account may have one. */
const oneAtATime = () => {
  const slots = createSlots({ most: 1, pool: new SharedPool(100) })
  return new Readers({ rows: {} as StreamRows, slots, heartbeatMs: 60_000 })
}

t.test('an exchange has one slot until it ends', async (t) => {
  const readers = oneAtATime()
  const [first, second] = [newExchange(), newExchange()]
  readers.take(first, 'a')
  readers.take(first, 'a')
  t.throws(() => readers.take(second, 'a'))
  readers.leave(second)
  t.throws(() => readers.take(second, 'a'), 'it had none to give back')
  readers.leave(first)
  readers.take(second, 'a')
})

t.test('who pays needs a slot when what was paid for has ended', async (t) => {
  const readers = oneAtATime()
  const [other, next] = [newExchange(), newExchange()]
  readers.take(other, 'a')
  const paid = Promise.withResolvers<void>()
  let cuts = 0
  const leave = readers.takeAfter(paid.promise, 'a', () => cuts++)
  t.equal(cuts, 0)
  paid.reject(new Error('an end, too'))
  await paid.promise.catch(() => undefined)
  t.equal(cuts, 1, 'there is none left')
  leave()
  readers.leave(other)
  const again = readers.takeAfter(Promise.resolve(), 'a', () => cuts++)
  await Promise.resolve()
  t.throws(() => readers.take(next, 'a'), 'it has the slot')
  again()
  readers.take(next, 'a')
  t.equal(cuts, 1)
})

t.test('who has left before takes none', async (t) => {
  const readers = oneAtATime()
  const leave = readers.takeAfter(Promise.resolve(), 'a', () => t.fail('cut off'))
  leave()
  await Promise.resolve()
  readers.take(newExchange(), 'a')
  t.pass('it is free')
})
