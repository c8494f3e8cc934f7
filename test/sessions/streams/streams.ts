// Streams read from any place, at a process that does not generate them: each cursor gets what follows it, one
// terminal, or truth about why not. Readers of the process that generates: generations.ts, and over HTTP
// test/plugins/sessions/stream.ts.

import { mock } from 'node:test'
import t from 'tap'
import type { Test } from 'tap'
import type { Exchange } from '../../../src/exchange.ts'
import { createSlots } from '../../../src/sharing/slots.ts'
import { newId } from '../../../src/ids.ts'
import { keys } from '../../../src/redis/keys.ts'
import { Generations } from '../../../src/sessions/streams/generations.ts'
import { FrameLog } from '../../../src/sessions/streams/frame-log.ts'
import { Lost } from '../../../src/sessions/streams/lost.ts'
import { MessageBook } from '../../../src/sessions/messages.ts'
import { Readers } from '../../../src/sessions/streams/reader.ts'
import { Recording } from '../../../src/sessions/streams/recording.ts'
import type { BeginRequest } from '../../../src/sessions/streams/stream-rows.ts'
import { SharedPool } from '../../../src/sharing/shared-pool.ts'
import { Streams } from '../../../src/sessions/streams/streams.ts'
import { Client, framesOf, openStreams, rowOf, said } from '../../fixtures/stream.ts'
import type { Setup } from '../../fixtures/stream.ts'
import { until } from '../../fixtures/until.ts'

const retry = 'retry: 1000\n'
const gone = '410'
const nothing = '204'

/** A process that may have generated a message and not told Redis its end. */
class Owner extends Generations {
  untold: Recording | undefined

  override recordingOf(): Recording | undefined {
    return this.untold
  }
}

async function open(t: Test, setup: Setup = {}, pool = new SharedPool(1000)) {
  const opened = await openStreams(t, setup)
  const { redis, rows, holds, start, options } = opened
  const messages = new MessageBook(opened)
  const { replayBytes } = options
  const generations = new Owner({ rows, replayBytes })
  t.teardown(() => generations.close(0))
  const streams = new Streams({
    rows,
    lost: new Lost({ redis, rows, holds }),
    generations,
    replayBytes,
    readers: new Readers({ rows, slots: createSlots({ pool }), heartbeatMs: 60_000 }),
    openPatienceMs: 600,
    messages,
  })
  /** Stores this many frames for an owner elsewhere. */
  const speak = async (count: number) => {
    const owned = await start()
    const words = Array.from({ length: count }, (_, i) => said(`${i} `))
    const frames = framesOf(owned.message, words)
    const text = frames.join('')
    await rows.append(owned, { first: 0, count, text })
    return { owned, frames, text }
  }
  const finish = async (owned: BeginRequest, seq: number) => {
    const last = `id: ${owned.message}:${seq}\ndata: [DONE]\n\n`
    const row = JSON.stringify(rowOf({ id: owned.message, status: 'completed' }))
    await rows.finish(owned, { first: seq, count: 1, text: last }, row)
    return last
  }
  /** Everything that a reader gets, without its retry line; or the status instead. */
  const read = async (owned: BeginRequest, seq: number) => {
    const reading = await begin(owned, seq)
    if (typeof reading === 'string') return reading
    await reading.how
    t.ok(reading.client.text.startsWith(retry))
    return reading.client.text.slice(retry.length)
  }
  const begin = async (
    owned: BeginRequest,
    seq: number,
    { isReplay = false, abort = new AbortController() } = {},
  ) => {
    const leaving = new AbortController()
    const x = { signal: abort.signal, left: leaving.signal } as unknown as Exchange
    const answer = await streams
      .open(x, owned, { seq, isReplay })
      .catch(({ status }: { status: number }) => `${status}`)
    if (typeof answer === 'string') return answer
    if (!answer) return nothing
    if (!('stream' in answer)) throw new Error('no stream')
    const client = new Client()
    const how = answer.stream(client).then(
      () => 'ended',
      () => 'cut',
    )
    t.teardown(() => leaving.abort())
    return { client, how, abort }
  }
  /** Opens the stream; what it returns reads it to the end, and gives all that came. */
  const opening = async (owned: BeginRequest, seq: number) => {
    const { signal } = new AbortController()
    const x = { signal, left: signal } as unknown as Exchange
    const answer = await streams.open(x, owned, { seq, isReplay: false })
    if (!answer || !('stream' in answer)) throw new Error('no stream')
    return async () => {
      const client = new Client()
      await answer.stream(client)
      return client.text
    }
  }
  return { ...opened, streams, generations, speak, finish, read, begin, opening }
}

t.test('of one that has ended, each cursor gets what follows it', async (t) => {
  const { speak, finish, read } = await open(t)
  const { owned, frames } = await speak(5)
  const all = [...frames, await finish(owned, 5)]
  for (let seq = 0; seq < 6; seq++) t.equal(await read(owned, seq), all.slice(seq).join(''))
  t.equal(await read(owned, 6), nothing)
  t.equal(await read(owned, 7), '400')
})

t.test('a repeated send reads only a message that is not taken back any more', async (t) => {
  const { rows, start, begin } = await open(t)
  const repeated = async () => {
    const owned = await start()
    return { owned, reading: begin(owned, 0, { isReplay: true }) }
  }
  const [quiet, opened, refused] = [await repeated(), await repeated(), await repeated()]
  await rows.append(opened.owned, { first: 0, count: 0, text: '', isOpen: true })
  t.type(await opened.reading, 'object', 'though there is no frame yet')
  await rows.withdraw(refused.owned, { ids: [refused.owned.message] })
  t.equal(await refused.reading, '410')
  await rows.append(quiet.owned, { first: 0, count: 0, text: '' })
  t.equal(await quiet.reading, '409')
})

t.test('after its owner is gone, each cursor gets one terminal, also those ahead', async (t) => {
  const { speak, read, silence, row } = await open(t)
  const { owned, text } = await speak(5)
  await silence(owned)
  const terminal = (seq: number, got: string | undefined) => {
    t.ok(got?.startsWith(`id: ${owned.message}:${seq}\ndata: {"error"`), `${seq}: ${got}`)
    t.match(got, 'upstream_incomplete')
    t.equal(got?.split('\n\n').length, 2, 'and nothing else')
  }
  terminal(8, (await read(owned, 8)) ?? '')
  t.match(await row(owned), { status: 'incomplete', content: '0 1 2 3 4 ' })
  terminal(8, (await read(owned, 8)) ?? '')
  terminal(6, (await read(owned, 6)) ?? '')
  t.equal(await read(owned, 9), nothing, 'it had this one')
  t.equal(await read(owned, 7), nothing)
  terminal(30, (await read(owned, 30)) ?? '')
  const whole = String(await read(owned, 0))
  t.ok(whole.startsWith(text))
  terminal(5, whole.slice(text.length))
  terminal(5, (await read(owned, 5)) ?? '')
  t.equal(await read(owned, 6), nothing, 'the stored one was given by now')
})

t.test('readers follow an owner elsewhere, from any place, also ahead', async (t) => {
  const { speak, finish, begin } = await open(t)
  const { owned, frames } = await speak(5)
  const readings = await Promise.all([0, 3, 5, 6].map((seq) => begin(owned, seq)))
  const last = await finish(owned, 5)
  const all = [...frames, last]
  for (const [i, seq] of [0, 3, 5].entries()) {
    const reading = readings[i]
    if (typeof reading !== 'object') return t.fail('not followed')
    t.equal(await reading.how, 'ended')
    t.equal(reading.client.text, retry + all.slice(seq).join(''))
  }
})

t.test('who follows from ahead when the owner dies gets the terminal alone, once', async (t) => {
  const { speak, begin, read, silence, rows } = await open(t)
  const { owned } = await speak(5)
  const readings = await Promise.all([6, 9].map((seq) => begin(owned, seq)))
  await silence(owned)
  for (const [i, seq] of [6, 9].entries()) {
    const reading = readings[i]
    if (typeof reading !== 'object') return t.fail('not followed')
    t.equal(await reading.how, 'ended')
    t.match(reading.client.text, new RegExp(`^retry: 1000\\nid: \\w+:${seq}\\ndata: .*\\n\\n$`))
    await until(() => rows.terminals.wasGiven(owned, seq))
    t.equal(await read(owned, seq + 1), nothing)
  }
})

t.test(
  'after the owner has come back, all get its frames, but not behind a terminal',
  async (t) => {
    const { speak, read, silence, rows } = await open(t)
    const { owned, frames } = await speak(3)
    await silence(owned)
    t.match(await read(owned, 1), /"code":"upstream_incomplete"/)
    t.match(await read(owned, 8), /"code":"upstream_incomplete"/)
    const { all, rest, row } = wholeOf(owned)
    t.match(await rows.finish(owned, rest, row), { word: 'ok' })
    t.same(all.slice(0, 3), frames)
    for (const seq of [0, 1, 3, 5]) t.equal(await read(owned, seq), all.slice(seq).join(''))
    t.equal(await read(owned, 4), nothing, 'its frame 3 was the terminal')
    t.equal(await read(owned, 9), nothing, 'and this was ahead')
    t.equal(await read(owned, 6), nothing)
  },
)

/** The rest of an answer of which Redis has three frames, and its row: to be put there by an owner that is back. */
function wholeOf({ message }: BeginRequest) {
  const all = framesOf(message, [...['0 ', '1 ', '2 ', '3 ', '4 '].map(said), '[DONE]'])
  const rest = { first: 3, count: 3, text: all.slice(3).join('') }
  return { all, rest, row: JSON.stringify(rowOf({ id: message, status: 'completed' })) }
}

const other = (seq: number) =>
  new RegExp(
    `^retry: 1000\\n(?:id: \\w+:[0-2]\\n.*\\n\\n)*id: \\w+:${seq}\\ndata: .*_incomplete.*\\n\\n$`,
  )

t.test(
  'who opens a stream before its owner is back, and reads it after, gets its end',
  async (t) => {
    const { speak, opening, read, silence, rows, streams } = await open(t)
    const { owned } = await speak(3)
    await silence(owned)
    await streams.look(owned)
    const reading = await opening(owned, 0)
    const { all, rest, row } = wholeOf(owned)
    t.match(await rows.finish(owned, rest, row), { word: 'ok' })
    t.equal(await reading(), retry + all.join(''))
    t.equal(await read(owned, 4), all.slice(4).join(''), 'it never had the other end')
  },
)

t.test('who gets the other end from Redis gets that alone, and nothing behind it', async (t) => {
  const { speak, opening, read, silence, rows, streams } = await open(t)
  const { owned } = await speak(3)
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const reading = await opening(owned, 0)
  await silence(owned)
  t.match(await streams.look(owned), { status: 'incomplete' })
  const got = reading()
  for (let looks = 0; looks < 1000 && !(await rows.terminals.wasGiven(owned, 3)); looks++) {
    await new Promise(setImmediate)
  }
  const { rest, row } = wholeOf(owned)
  t.match(await rows.finish(owned, rest, row), { word: 'ok' })
  mock.timers.tick(200)
  t.match(await got, other(3))
  t.equal(await read(owned, 4), nothing)
})

t.test(
  'also at the owner, when Redis has the other end and it could not tell its own',
  async (t) => {
    const { speak, read, silence, rows, streams, generations } = await open(t)
    const { owned, text } = await speak(3)
    await silence(owned)
    t.match(await streams.look(owned), { status: 'incomplete' })
    const { rest } = wholeOf(owned)
    // Memory has only the last frames.
    const replayBytes = rest.text.length
    const recording = new Recording({ owned, rows, replayBytes, stop() {} })
    t.teardown(() => recording.drop())
    recording.log.add(text, 3)
    recording.log.add(rest.text, 6)
    recording.log.end()
    generations.untold = recording
    t.equal(await read(owned, 3), rest.text)
    t.match(`${retry}${await read(owned, 0)}`, other(3))
    t.equal(await read(owned, 4), nothing, 'it had the other end')
    t.equal(await read(owned, 3), rest.text)
  },
)

t.test('many readers share one follower, which ends with the last', async (t) => {
  const { speak, begin, redis } = await open(t)
  const { owned } = await speak(1)
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const reads = async () =>
    Number((await redis.info('commandstats')).match(/xrange:calls=(\d+)/)?.[1] ?? 0)
  const readings = await Promise.all(Array.from({ length: 20 }, () => begin(owned, 1)))
  const before = await reads()
  /** The number of polls in this time. */
  const pollsIn = async (ms: number) => {
    mock.timers.tick(ms)
    const polls = (await reads()) - before
    await new Promise(setImmediate)
    return polls
  }
  t.equal(await pollsIn(199), 0)
  t.equal(await pollsIn(1), 1, 'one for all of them')
  t.equal(await pollsIn(200), 2, 'five in a second')
  for (const reading of readings) {
    if (typeof reading !== 'object') return t.fail('not followed')
    reading.abort.abort(new Error('drain'))
    t.equal(await reading.how, 'cut')
  }
  for (let second = 0; second < 3; second++) t.equal(await pollsIn(1000), 2, 'no more')
})

t.test('a reader that comes after the drain is cut off, too', async (t) => {
  const { speak, begin } = await open(t)
  const { owned } = await speak(1)
  const reading = await begin(owned, 1, { abort: aborted() })
  t.equal(typeof reading === 'object' && (await reading.how), 'cut')
})

function aborted(): AbortController {
  const abort = new AbortController()
  abort.abort(new Error('drain'))
  return abort
}

t.test('a stream that is no longer kept is 410, an unknown one 404', async (t) => {
  const { speak, finish, read, redis, ref, rows, start } = await open(t, { replayBytes: 300 })
  const { owned } = await speak(3)
  await finish(owned, 3)
  await redis.del(keys.frames(ref, owned.message))
  t.equal(await read(owned, 0), gone, 'its frames alone')
  t.equal(await read(owned, 4), nothing)
  await redis.del(keys.stream(ref, owned.message))
  t.equal(await read(owned, 0), gone)
  t.equal(await read(owned, 4), gone)
  t.equal(await read({ ...owned, message: newId('msg') }, 0), '404')
  const long = await start()
  const frames = framesOf(
    long.message,
    Array.from({ length: 20 }, () => said('a')),
  )
  for (const [first, text] of frames.entries()) {
    await rows.append(long, { first, count: 1, text, said: '{}' })
  }
  t.equal(await read(long, 0), gone, 'its oldest')
  const last = await finish(long, 20)
  t.equal(await read(long, 19), `${frames[19]}${last}`)
})

t.test('one in progress is seen as far as it came, ended if its owner is gone', async (t) => {
  const { speak, streams, silence } = await open(t)
  const { owned } = await speak(3)
  t.match(await streams.look(owned), { status: 'in_progress', content: '0 1 2 ' })
  await silence(owned)
  t.match(await streams.look(owned), { status: 'incomplete', content: '0 1 2 ' })
})

t.test('who has left takes no place when what it paid for ends', async (t) => {
  const pool = new SharedPool(1000)
  const { start, streams, options } = await open(t, {}, pool)
  const { replayBytes } = options
  const owned = await start()
  for (const leaves of ['before', 'while it reads']) {
    const leaving = new AbortController()
    const x = {
      signal: new AbortController().signal,
      left: leaving.signal,
    } as unknown as Exchange
    const paid = Promise.withResolvers<void>()
    const source = { log: new FrameLog(owned.message, { next: 0, maxBytes: replayBytes }) }
    if (leaves === 'before') leaving.abort()
    const reading = { place: owned, source, seq: 0, paid: paid.promise }
    let isOver = false
    void streams.readers.write(new Client(), x, reading).then(() => (isOver = true))
    leaving.abort()
    await until(() => isOver)
    paid.resolve()
    await new Promise(setImmediate)
    t.equal(pool.used, 0, leaves)
  }
})

t.test('a cancel reaches an owner elsewhere, and is answered when it has ended', async (t) => {
  const { streams, start, rows, options, finish } = await open(t)
  const owned = await start()
  const { replayBytes } = options
  const recording = new Recording({
    owned,
    rows,
    replayBytes,
    stop() {
      recording.drop()
      void finish(owned, 0)
    },
  })
  t.match(await streams.cancel(owned), { id: owned.message, status: 'completed' })
  t.match(await streams.cancel(owned), { status: 'completed' }, 'again')
})

t.test('a cancel of one whose owner is gone ends it', async (t) => {
  const { streams, speak, silence } = await open(t)
  const { owned } = await speak(2)
  await silence(owned)
  t.match(await streams.cancel(owned), { status: 'incomplete', content: '0 1 ' })
  const unknown = { ...owned, message: newId('msg') }
  await t.rejects(streams.cancel(unknown), { code: 'message_not_found' })
})
