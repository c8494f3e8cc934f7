// What a process generates reaches its readers at once and Redis in order, once, whatever Redis does meanwhile.

import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../../src/redis/keys.ts'
import { Assembly } from '../../../src/sessions/streams/assembly.ts'
import { Lost } from '../../../src/sessions/streams/lost.ts'
import { Recording } from '../../../src/sessions/streams/recording.ts'
import type { BeginRequest } from '../../../src/sessions/streams/stream-rows.ts'
import { durable } from '../../fixtures/aof.ts'
import { handClock } from '../../fixtures/hand-clock.ts'
import { seeded } from '../../fixtures/random.ts'
import { openStreams, rowOf, said } from '../../fixtures/stream.ts'
import type { Opened, Setup } from '../../fixtures/stream.ts'
import { until } from '../../fixtures/until.ts'

const row = ({ message }: BeginRequest) =>
  JSON.stringify(rowOf({ id: message, status: 'completed', content: 'x' }))

async function record(t: Test, setup: Setup = {}) {
  const opened = await openStreams(t, setup)
  const owned = await opened.start()
  const heard: string[] = []
  const recording = new Recording({
    owned,
    rows: opened.rows,
    replayBytes: opened.options.replayBytes,
    stop: (code) => heard.push(code),
  })
  t.teardown(() => recording.drop())
  /** The text of all frames. */
  let text = ''
  const say = (...words: readonly string[]) => {
    const frames = words
      .map((word) => recording.frame({ event: undefined, data: said(word) }))
      .join('')
    text += frames
    recording.write(frames)
  }
  const isStored = (seq: number) => () =>
    opened.rows.state(owned).then(
      (state) => state?.next === seq,
      () => false,
    )
  const end = async () => {
    const last = recording.lastFrame('[DONE]')
    text += last
    return recording.finish(last, row(owned))
  }
  return {
    ...opened,
    owned,
    recording,
    heard,
    say,
    end,
    isStored,
    get text() {
      return text
    },
  }
}

const words = (count: number, length = 100) =>
  Array.from({ length: count }, (_, i) => `${i} `.padEnd(length, '.'))

const storedText = async ({ rows }: Opened, owned: BeginRequest, seq = 0) => {
  let text = ''
  for (;;) {
    const piece = await rows.frames(owned, seq)
    if (!piece) return undefined
    text += piece.text
    if (piece.next === seq) return text
    seq = piece.next
  }
}

/** Returns a function that restores both keys of the stream as they are now, like a Redis that lost its last second. */
async function remember({ redis, ref }: Opened, { message }: BeginRequest) {
  const names = [keys.stream(ref, message), keys.frames(ref, message)]
  const dumps = await Promise.all(names.map((name) => redis.dumpBuffer(name)))
  return async () => {
    const all = redis.multi()
    for (const [i, name] of names.entries()) {
      const dump = dumps[i]
      if (dump) all.restore(name, 0, dump, 'REPLACE')
      else all.del(name)
    }
    await all.exec()
  }
}

t.test('readers have a frame at once, Redis in batches, both to the end', async (t) => {
  const it = await record(t)
  const { recording, say, owned, isStored } = it
  say('first')
  t.equal(recording.log.from(0)?.text, it.text)
  await until(isStored(1))
  for (const word of words(50)) say(word)
  t.equal(recording.log.next, 51)
  t.equal(recording.log.from(0)?.text, it.text)
  await until(isStored(51))
  t.ok((await it.redis.xlen(keys.frames(it.ref, owned.message))) < 5, 'not one flight a frame')
  t.equal(await it.end(), true)
  t.equal(await storedText(it, owned), it.text)
  t.equal(recording.log.from(51)?.text, it.text.slice(it.text.lastIndexOf('id: ')))
  t.ok(recording.log.isEnded)
  t.match(await it.row(owned), { status: 'completed' })
  t.match(recording.said().result().content, /^first0 \.+1 /)
  t.same(it.heard, [])
})

t.test('frames that were numbered and not written leave no hole before the last one', async (t) => {
  const it = await record(t)
  it.recording.frame({ event: undefined, data: said('') })
  it.recording.frame({ event: undefined, data: said('') })
  t.equal(await it.end(), true)
  t.equal(it.text, `id: ${it.owned.message}:0\ndata: [DONE]\n\n`)
  t.equal(await storedText(it, it.owned), it.text)
  t.equal(it.recording.log.from(0)?.text, it.text)
})

t.test('after another target was asked, only its frames are numbered and said', async (t) => {
  const it = await record(t)
  it.recording.frame({ event: undefined, data: said('of the first target') })
  it.recording.restart()
  it.say('one')
  t.equal(await it.end(), true)
  t.match(it.text, new RegExp(`^id: ${it.owned.message}:0\\n`))
  t.equal(await storedText(it, it.owned), it.text)
  t.match(it.recording.said().result(), { content: 'one' })
})

t.test('a batch whose reply was lost is stored once', async (t) => {
  const it = await record(t)
  it.say('a')
  await until(it.isStored(1))
  // Longer than the time-out of a command: it runs all the same.
  await it.redis.client('PAUSE', 2300, 'ALL')
  it.say('b')
  await until(it.isStored(2))
  it.say('c', 'd')
  await until(it.isStored(4))
  await it.end()
  t.equal(await storedText(it, it.owned), it.text)
})

t.test('a Redis that forgot the last frames is given them again, from memory', async (t) => {
  const it = await record(t)
  it.say('a', 'b')
  await until(it.isStored(2))
  const back = await remember(it, it.owned)
  it.say('c', 'd')
  await until(it.isStored(4))
  it.say('e')
  await until(it.isStored(5))
  await back()
  await until(it.isStored(5))
  t.equal(await storedText(it, it.owned), it.text, 'also when nothing is said any more')
  await back()
  it.say('f')
  t.equal(await it.end(), true)
  t.equal(await storedText(it, it.owned), it.text, 'also at the end')
})

t.test('a stream that memory no longer has begins again, with all its words', async (t) => {
  const it = await record(t)
  it.say('a')
  await until(it.isStored(1))
  const back = await remember(it, it.owned)
  for (let i = 0; i < 8; i++) {
    it.say(...words(50, 1000))
    await until(it.isStored(51 + i * 50))
  }
  t.equal(it.recording.log.from(1), undefined, 'memory has forgotten it')
  await back()
  await until(it.isStored(401))
  const [message, seq] = [it.owned.message, 401]
  const kept = await firstStored(it, it.owned)
  t.ok(kept.length > 10_000 && it.text.endsWith(kept), 'all that memory has, in silence too')
  it.say('z')
  await until(it.isStored(402))
  t.equal(await storedText(it, it.owned), undefined)
  t.equal(
    await storedText(it, it.owned, seq),
    it.text.slice(it.text.indexOf(`id: ${message}:${seq}`)),
  )
  t.equal((await it.rows.words(it.owned)).saidNext, 401)
  const heir = await new Lost(it).said(it.owned)
  t.ok(heir.result().content === it.recording.said().result().content)
  await back()
  t.equal(await it.end(), true)
  t.match(
    await it.row(it.owned),
    { status: 'completed' },
    'and at the end it is the row that counts',
  )
})

t.test('with Redis away frames wait, and arrive in order; readers notice nothing', async (t) => {
  const it = await record(t, { args: durable })
  it.say('a')
  await until(it.isStored(1))
  await it.server.stop()
  for (const word of words(300)) it.say(word)
  t.equal(it.recording.log.from(0)?.text, it.text)
  await it.server.restart()
  await until(() => it.link.up)
  it.recording.wake()
  await until(it.isStored(301))
  t.equal(await it.end(), true)
  t.equal(await storedText(it, it.owned), it.text)
  t.same(it.heard, [])
})

t.test('with Redis away for long the bound waits; then it is begun anew', async (t) => {
  const replayBytes = 20_000
  const it = await record(t, { args: durable, replayBytes })
  it.say('a')
  await until(it.isStored(1))
  await it.server.stop()
  for (const word of words(500)) it.say(word)
  t.equal(it.recording.log.from(300), undefined, 'memory is bounded')
  t.ok(it.recording.log.from(450))
  await it.server.restart()
  await until(() => it.link.up)
  it.recording.wake()
  await until(it.isStored(501))
  const firstKept = it.text.indexOf((await firstStored(it, it.owned)).slice(0, 50))
  const kept = it.text.slice(firstKept)
  t.ok(kept.length > replayBytes / 4 && kept.length <= replayBytes, `${kept.length}`)
  t.equal(await firstStored(it, it.owned), kept)
  const { said: snapshot } = await it.rows.words(it.owned)
  t.same(Assembly.from(snapshot).result(), it.recording.said().result())
  t.equal(await it.end(), true)
  t.same(it.heard, [])
})

/** All stored frames, from the first one. */
async function firstStored({ redis, ref }: Opened, { message }: BeginRequest): Promise<string> {
  const entries = await redis.xrange(keys.frames(ref, message), '-', '+')
  return entries.map(([, fields]) => fields[1]).join('')
}

t.test('what memory and Redis keep of a long answer stays within the bound', async (t) => {
  const replayBytes = 50_000
  const it = await record(t, { replayBytes })
  for (let i = 1; i <= 20; i++) {
    it.say(...words(100))
    await until(it.isStored(i * 100))
  }
  const kept = await firstStored(it, it.owned)
  t.ok(kept.length <= replayBytes * 1.5, `${kept.length} of ${it.text.length}`)
  t.ok(it.text.endsWith(kept))
  t.ok((await it.rows.words(it.owned)).saidNext > 1000)
  await it.end()
})

t.test('however fast it is said, Redis has it in small batches, to the end', async (t) => {
  const it = await record(t)
  const saying = words(500, 500)
  it.say(...saying)
  await until(it.isStored(500))
  it.say(...saying)
  t.ok(await it.end())
  const batches = await it.redis.xrange(keys.frames(it.owned.ref, it.owned.message), '-', '+')
  const longest = Math.max(...batches.map(([, fields]) => fields[1]?.length ?? 0))
  t.ok(longest < 34 * 1024, `${longest} bytes in one`)
  t.ok(batches.length > 10)
  t.equal(await storedText(it, it.owned), it.text)
})

t.test('a cancel from elsewhere is heard of, also in silence', async (t) => {
  const it = await record(t)
  it.say('a')
  await until(it.isStored(1))
  await it.rows.cancel(it.owned)
  await until(() => it.heard.length > 0)
  t.equal(it.heard[0], 'message_cancelled')
})

t.test('an owner that Redis takes for gone stops, and cuts its readers off', async (t) => {
  const it = await record(t)
  it.say('a')
  await until(it.isStored(1))
  await it.silence(it.owned)
  const terminal = 'data: {}\n\n'
  const lost = { reached: 1, terminal, row: row(it.owned).replace('completed', 'incomplete') }
  t.ok(await it.rows.finishLost(it.owned, lost))
  const after = await storedText(it, it.owned)
  it.say('b')
  await until(() => it.heard.length > 0)
  t.same(it.heard, ['upstream_incomplete'])
  t.ok(it.recording.log.isBroken)
  it.say('c')
  t.equal(await it.end(), true, 'there is nothing more to tell')
  t.notOk(it.recording.log.isEnded)
  t.equal(await storedText(it, it.owned), after)
  t.match(await it.row(it.owned), { status: 'incomplete' })
})

t.test('one that is taken for gone at its very end says so too', async (t) => {
  const it = await record(t)
  it.say('a')
  await until(it.isStored(1))
  await it.silence(it.owned)
  await it.rows.finishLost(it.owned, { reached: 1, terminal: 'data: {}\n\n', row: '{}' })
  t.equal(await it.end(), true)
  t.same(it.heard, ['upstream_incomplete'])
  t.ok(it.recording.log.isBroken)
})

t.test('a Redis that comes back in the middle of the end does not break it', async (t) => {
  const it = await record(t)
  it.say('a')
  await until(it.isStored(1))
  it.say('b')
  const ended = it.end()
  it.recording.wake()
  // After the running command, with the end on its way.
  await turn()
  it.recording.wake()
  t.equal(await ended, true)
  it.recording.wake()
  // An append that this has sent is answered before, and a turn later the recording has read the answer.
  await it.redis.ping()
  await turn()
  t.match(await it.rows.state(it.owned), { isEnded: true })
  t.ok(it.recording.log.isEnded)
  t.notOk(it.recording.log.isBroken)
  t.same(it.heard, [])
})

t.test('where the end can not be told, readers get it, and Redis later, once', async (t) => {
  const it = await record(t, { args: durable })
  it.say('a')
  await until(it.isStored(1))
  await it.server.stop()
  it.say('b')
  t.equal(await it.end(), false)
  t.ok(it.recording.log.isEnded)
  t.equal(it.recording.log.from(0)?.text, it.text)
  t.equal(await it.recording.finish('', row(it.owned)), false)
  await it.server.restart()
  await until(() => it.link.up)
  const again = () => it.recording.finish('', row(it.owned))
  t.same(await Promise.all([again(), again()]), [true, true])
  t.equal(await again(), true)
  t.equal(await storedText(it, it.owned), it.text)
  t.equal(it.recording.log.from(0)?.text, it.text)
  t.match(await it.row(it.owned), { status: 'completed' })
})

t.test('whatever Redis forgets, in the end it is whole from some frame on', async (t) => {
  const random = seeded(Number(process.env.SEED ?? 5))
  const it = await openStreams(t, { replayBytes: 30_000 })
  const sayings = await Promise.all(
    Array.from({ length: 12 }, async (_, i) => {
      const one = await record(t, { server: it.server, replayBytes: 30_000 })
      const forgets = [await remember(one, one.owned)]
      for (let step = 0; step < 25; step++) {
        one.say(...words(1 + random(20), 1 + random(400)))
        if (random(4) === 0) forgets.push(await remember(one, one.owned))
        if (random(4) === 0) await forgets[random(forgets.length)]?.()
        if (random(4) === 0) one.recording.wake()
        if (random(3) === 0) await until(one.isStored(one.recording.log.next))
      }
      const { next } = one.recording.log
      await until(one.isStored(next))
      const lost = new Lost(one)
      const heir = (await lost.said(one.owned)).result()
      t.same(heir, one.recording.said().result(), `${i} could be finished by another`)
      const isTold = await one.end()
      return { one, isTold, i }
    }),
  )
  for (const { one, isTold, i } of sayings) {
    t.ok(isTold, `${i} is told`)
    t.same(one.heard, [], `${i} kept its owner`)
    const kept = await firstStored(one, one.owned)
    t.ok(kept.startsWith(`id: ${one.owned.message}:`) && one.text.endsWith(kept), `${i} is whole`)
    const { next } = one.recording.log
    t.match(await one.rows.state(one.owned), { next, isEnded: true })
    t.match(await one.row(one.owned), { status: 'completed' })
  }
})

t.test('an end by another gateway makes room for the whole answer', async (t) => {
  const it = await record(t)
  const { owned, recording, rows } = it
  it.say('one', 'two')
  await until(it.isStored(2))
  await it.silence(owned)
  const incomplete = JSON.stringify(rowOf({ id: owned.message, status: 'incomplete' }))
  const other = { reached: 2, terminal: 'data: {}\n\n', row: incomplete }
  it.say('three')
  // In one tick, so that the recording learns nothing of the other end before its own.
  const [isLost, isStored] = await Promise.all([rows.finishLost(owned, other), it.end()])
  t.same([isLost, isStored], [true, true])
  t.notOk(recording.isUnwritable)
  t.ok(recording.log.isEnded)
  t.equal(await storedText(it, owned), it.text)
  t.match(await it.row(owned), { status: 'completed' })
  t.same(it.heard, [])
})

t.test('also for a long answer, of which Redis lacks more than a batch', async (t) => {
  const it = await record(t, { args: durable })
  const { owned, recording, rows } = it
  it.say('a')
  await until(it.isStored(1))
  await it.server.stop()
  it.say(...words(500, 500))
  t.equal(await it.end(), false)
  await it.server.restart()
  await until(() => it.link.up)
  await it.silence(owned)
  const incomplete = JSON.stringify(rowOf({ id: owned.message, status: 'incomplete' }))
  const other = { reached: 1, terminal: 'data: {}\n\n', row: incomplete }
  t.equal(await rows.finishLost(owned, other), true)
  t.equal(await recording.finish('', row(owned)), true)
  t.notOk(recording.isUnwritable)
  t.ok((await storedText(it, owned)) === it.text)
  t.match(await it.row(owned), { status: 'completed' })
})

// The last one, because what it sets by its own clock is never called.
t.test('8 frames a second are 4 batches, and none waits longer than 250 ms', async (t) => {
  const it = await record(t)
  const { owned, isStored, say } = it
  say('first')
  await until(isStored(1))
  const clock = handClock(t, 'setTimeout')
  // Past the times that were set by the real clock.
  clock.pass(2000)
  const saidAt = [0]
  for (let seq = 1; seq <= 80; seq++) {
    say(`${seq}`)
    saidAt.push(performance.now())
    for (let i = 0; i < 5; i++) {
      clock.pass(25)
      // Answered after the append that this time has sent.
      await it.redis.ping()
      const { next = 0 } = (await it.rows.state(owned)) ?? {}
      // The clock moves by 10 ms.
      const isLate = performance.now() - (saidAt[next] ?? Infinity) > 260
      if (isLate) return t.fail(`frame ${next} waits`)
    }
  }
  const batches = await it.redis.xlen(keys.frames(it.ref, owned.message))
  t.ok(batches <= 1 + 10 * 5, `${batches} batches in 10 s`)
  t.equal(await it.end(), true)
  t.equal(await storedText(it, owned), it.text)
})
