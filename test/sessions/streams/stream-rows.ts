// A message's stream in Redis: only its owner changes it, once and in order; reading gives what was written.

import t from 'tap'
import type { Test } from 'tap'
import { newId } from '../../../src/ids.ts'
import { keys } from '../../../src/redis/keys.ts'
import { putToSleep } from '../../../src/sessions/asleep/sleeping.ts'
import { readContext } from '../../../src/sessions/sending/prepare.ts'
import type { Context } from '../../../src/sessions/sending/prepare.ts'
import type { BeginRequest } from '../../../src/sessions/streams/stream-rows.ts'
import { storedIn } from '../../fixtures/asleep.ts'
import { freePort } from '../../fixtures/free-port.ts'
import { newHoldId } from '../../fixtures/ledger.ts'
import { seeded } from '../../fixtures/random.ts'
import { framesOf, openStreams, rowOf } from '../../fixtures/stream.ts'
import { startRedis } from '../../fixtures/redis-server.ts'
import type { Opened, Setup } from '../../fixtures/stream.ts'
import { until } from '../../fixtures/until.ts'

const all = async ({ redis }: Opened) => {
  const names = (await redis.keys('*')).toSorted()
  return Promise.all(names.map(async (name) => [name, await redis.dump(name)]))
}

const shared = await startRedis(t)

const done = (id: string) => JSON.stringify(rowOf({ id, status: 'completed', content: 'x' }))

/** One batch for each frame, and one for the last `rest`. */
async function fill(
  { rows }: Opened,
  owned: BeginRequest,
  frames: readonly string[],
): Promise<void> {
  for (const [first, text] of frames.entries()) await rows.append(owned, { first, count: 1, text })
}

t.test('a send is begun with all its rows, its stream, the lock and the claim', async (t) => {
  const opened = await openStreams(t, { retentionS: 1000 })
  const { redis, ref, rows, send, row } = opened
  const claim = { key: keys.claim(ref, 'k'), running: 'mine', kept: 'pointer' }
  await redis.set(claim.key, claim.running)
  const request = await send({ claim })
  const { session, message, hold } = request
  t.same(await rows.begin(request), { word: 'ok' })
  const ids = request.rows.map(([id]) => id)
  t.same(await redis.zrange(keys.messageIds(ref, session), '0', '-1'), ids)
  t.match(await row(request), { id: message, status: 'in_progress', hold })
  const bytes = request.rows.reduce((sum, [, text]) => sum + text.length, 0)
  const kept = await redis.hgetall(keys.session(ref, session))
  t.match(kept, { active: message, last: message, messages: '2', bytes: String(bytes), title: 'T' })
  t.ok(Number(kept.updated_at) > 1)
  t.match(await rows.state(request), { hold, next: 0, isEnded: false, isLost: false })
  t.equal(await redis.get(claim.key), 'pointer')
  t.ok((await redis.ttl(claim.key)) > 86_000)
  for (const name of [
    keys.session(ref, session),
    keys.messageIds(ref, session),
    keys.messages(ref, session),
    keys.stream(ref, message),
  ]) {
    const ttl = await redis.ttl(name)
    t.ok(ttl > 900 && ttl <= 1000, name)
  }
})

t.test('a send that may not begin writes nothing, and says why', async (t) => {
  const opened = await openStreams(t, { sessionBytes: 5000 })
  const { redis, ref, rows, send, start } = opened
  const busy = await start()
  const idle = await start()
  await rows.finish(idle, { first: 0, count: 1, text: 'x' }, done(idle.message))
  const { session, message: last } = idle
  const claim = { key: keys.claim(ref, 'k'), running: 'mine', kept: 'pointer' }
  await redis.set(claim.key, "another's")
  const fresh = { session, seen: `${last}:1` }
  const [, row = ['', '']] = (await send(fresh)).rows
  const long = [row[0], 'x'.repeat(5000)] as const
  const tries: readonly [string, BeginRequest, string?][] = [
    ['session_not_found', await send({ session: newId('sess') })],
    [
      'session_busy',
      await send({ session: busy.session, seen: `${busy.message}:0` }),
      busy.message,
    ],
    ['changed', await send({ session })],
    ['changed', await send({ session, seen: `${newId('msg')}:1` })],
    ['changed', await send({ session, seen: `${last}:0` })],
    ['changed', await send({ seen: `${newId('msg')}:0` })],
    ['no_hold', { ...(await send(fresh)), hold: newHoldId() }],
    ['claim_lost', await send({ ...fresh, claim })],
    ['claim_lost', await send({ ...fresh, claim: { ...claim, key: keys.claim(ref, 'gone') } })],
    ['older', await send({ ...fresh, rows: [[`msg_${'0'.repeat(32)}`, '{}'], row] }), last],
    ['older', await send({ ...fresh, rows: [[last, '{}'], row] }), last],
    ['full', await send({ ...fresh, rows: [long] })],
  ]
  const before = await all(opened)
  for (const [word, request, message] of tries) {
    t.same(await rows.begin(request), { word, ...(message && { message }) }, word)
    t.same(await all(opened), before, `${word} writes nothing`)
  }
  t.same(await rows.begin(await send(fresh)), { word: 'ok' })
})

t.test('frames come out as they went in, from any place, whatever is in them', async (t) => {
  const opened = await openStreams(t)
  const { rows, start } = opened
  const random = seeded(3)
  const owned = await start()
  const { message } = owned
  const data = Array.from({ length: 200 }, (_, i) =>
    [`id: ${message}:${random(200)}`, `x\n\nid: ${message}:${random(200)}\n`, 'é\0ÿ', `${i}`].at(
      random(4),
    ),
  )
  const frames = framesOf(
    message,
    data.map((one) => one ?? ''),
  )
  for (let first = 0; first < 200;) {
    const next = Math.min(200, first + 1 + random(5))
    const text = frames.slice(first, next).join('')
    t.same(await rows.append(owned, { first, count: next - first, text }), {
      word: 'ok',
      isCancelled: false,
    })
    first = next
  }
  for (let seq = 0; seq <= 200; seq++) {
    let text = ''
    for (let next = seq; next < 200;) {
      const piece = await rows.frames(owned, next)
      if (!piece || piece.next === next) break
      text += piece.text
      next = piece.next
    }
    t.ok(text === frames.slice(seq).join(''), `from ${seq}`)
  }
  t.same(
    await rows.frames(owned, 999),
    { text: '', next: 999, isEnd: false, isLost: false },
    'ahead',
  )
})

t.test('appending again changes nothing; an overlap or a gap is reported', async (t) => {
  const opened = await openStreams(t)
  const { rows, start, redis, ref } = opened
  const owned = await start()
  const frames = framesOf(owned.message, ['a', 'b', 'c', 'd'])
  const two = { first: 0, count: 2, text: frames.slice(0, 2).join('') }
  const ok = { word: 'ok', isCancelled: false }
  t.same(await rows.append(owned, two), ok)
  t.same(await rows.append(owned, two), ok, 'its reply was lost')
  t.same(await rows.append(owned, { first: 1, count: 1, text: 'x' }), ok, 'stored already')
  t.equal(await redis.xlen(keys.frames(ref, owned.message)), 1)
  t.same(await rows.append(owned, { first: 1, count: 2, text: 'x' }), { word: 'behind', next: 2 })
  t.same(await rows.append(owned, { first: 3, count: 1, text: 'x' }), { word: 'behind', next: 2 })
  t.same(await rows.append(owned, { first: 3, count: 0, text: '' }), { word: 'behind', next: 2 })
  t.same(await rows.append(owned, { first: 2, count: 0, text: '' }), ok)
  t.equal((await rows.frames(owned, 0))?.text, two.text)
})

t.test('a forgotten stream is begun anew by its owner, with all that was said', async (t) => {
  const { redis, ref, rows, start } = await openStreams(t, { retentionS: 100 })
  const owned = await start()
  const { message, session } = owned
  const one = { first: 0, count: 1, text: 'x' }
  const two = { first: 1, count: 1, text: 'y' }
  const forget = () => redis.del(keys.stream(ref, message), keys.frames(ref, message))
  await rows.append(owned, one)
  await forget()
  t.same(await rows.append(owned, two), { word: 'behind', next: 0 })
  t.same(await rows.finish(owned, two, done(message)), { word: 'behind', next: 0 })
  t.match(await rows.append(owned, one), { word: 'ok' })
  t.match(await rows.state(owned), { hold: owned.hold, next: 1, isEnded: false })
  for (const key of [keys.stream(ref, message), keys.frames(ref, message)]) {
    t.ok((await redis.pttl(key)) > 0, 'it expires with its session')
  }
  await forget()
  t.match(await rows.append(owned, { ...two, replaces: true, said: '{}' }), { word: 'ok' })
  t.match(await rows.words(owned), { next: 2, saidNext: 2 })
  await redis.del(keys.messages(ref, session), keys.messageIds(ref, session))
  const count = Number(await redis.hget(keys.session(ref, session), 'messages'))
  t.match(await rows.finish(owned, { first: 2, count: 1, text: 'z' }, done(message)), {
    word: 'ok',
  })
  t.ok(await redis.hget(keys.messages(ref, session), message), 'the row is there again')
  t.same(await redis.zrange(keys.messageIds(ref, session), '0', '-1'), [message])
  t.match(await redis.hgetall(keys.session(ref, session)), {
    last: message,
    messages: `${count + 1}`,
    active: undefined,
  })
})

t.test('what is left of a forgotten stream is not there twice', async (t) => {
  const { redis, ref, rows, start } = await openStreams(t)
  for (const isEnd of [false, true]) {
    const owned = await start()
    const { message, session } = owned
    const [one = '', two = '', three = ''] = framesOf(message, ['1', '2', '3'])
    for (const [first, text] of [one, two, three].entries()) {
      await rows.append(owned, { first, count: 1, text })
    }
    const count = await redis.hget(keys.session(ref, session), 'messages')
    await redis.del(keys.stream(ref, message), keys.messages(ref, session))
    const again = { first: 0, count: 2, text: one + two }
    const told = isEnd ? rows.finish(owned, again, done(message)) : rows.append(owned, again)
    t.match(await told, { word: 'ok' })
    t.equal((await rows.frames(owned, 0))?.text, one + two)
    t.equal(await redis.hget(keys.session(ref, session), 'messages'), count, 'its id was there')
  }
})

t.test('a forgotten stream of a dead owner is ended, with its frames left', async (t) => {
  const { redis, ref, rows, start, row } = await openStreams(t, { leaseMs: 1000 })
  await until(async () => !(await redis.info('server')).includes('uptime_in_seconds:0'))
  const owned = await start()
  const { message, session } = owned
  const frames = framesOf(message, ['1', '2', '3'])
  for (const [first, text] of frames.entries()) await rows.append(owned, { first, count: 1, text })
  await redis.del(keys.stream(ref, message))
  await redis.hdel(keys.holdRows(ref), owned.hold)
  const end = { reached: 0, terminal: 'data: {}\n\n', row: done(message) }
  t.equal(await rows.finishLost(owned, end), true)
  t.match(await row(owned), { status: 'completed' })
  t.notOk(await redis.hget(keys.session(ref, session), 'active'), 'the session is free')
  const left = await rows.frames(owned, 0)
  t.match(left, { text: /^id: msg_\w+:0\ndata: \{\}\n\n$/, isEnd: true })
})

t.test('one that others ended is not begun anew when its frames are gone', async (t) => {
  const opened = await openStreams(t)
  const { redis, ref, rows, start, silence } = opened
  const owned = await start()
  await silence(owned)
  await rows.finishLost(owned, { reached: 0, terminal: 'data: {}\n\n', row: done(owned.message) })
  await redis.del(keys.stream(ref, owned.message), keys.frames(ref, owned.message))
  const before = await all(opened)
  const batch = { first: 0, count: 1, text: 'x' }
  t.same(await rows.append(owned, batch), { word: 'lost' })
  t.same(await rows.finish(owned, batch, done(owned.message)), { word: 'lost' })
  t.same(await all(opened), before)
})

t.test('only its owner appends, and only until the end', async (t) => {
  const opened = await openStreams(t)
  const { rows, start } = opened
  const owned = await start()
  const batch = { first: 0, count: 1, text: 'x' }
  const stranger = { ...owned, hold: newHoldId() }
  const before = await all(opened)
  const lost = { word: 'lost' }
  t.same(await rows.append(stranger, batch), lost)
  t.same(await rows.finish(stranger, batch, done(owned.message)), lost)
  await rows.withdraw(stranger, { ids: owned.rows.map(([id]) => id) })
  const unknown = { ...owned, session: newId('sess'), message: newId('msg') }
  const forgotten = { word: 'forgotten' }
  t.same(await rows.append(unknown, batch), forgotten)
  t.same(await rows.finish(unknown, batch, done(unknown.message)), forgotten)
  t.same(await all(opened), before)
  t.match(await rows.finish(owned, batch, done(owned.message)), { word: 'ok' })
  const after = await all(opened)
  t.same(await rows.append(owned, { ...batch, first: 1 }), lost)
  t.same(await rows.append(owned, batch), lost)
  await rows.withdraw(owned, { ids: owned.rows.map(([id]) => id) })
  t.same(await all(opened), after, 'what has ended is not taken back')
})

t.test('beyond the bound old frames go, but none whose words are only there', async (t) => {
  const opened = await openStreams(t, { replayBytes: 1000 })
  const { rows, start, redis, ref } = opened
  const owned = await start()
  const frames = framesOf(
    owned.message,
    Array.from({ length: 40 }, () => 'x'.repeat(60)),
  )
  const size = frames[30]?.length ?? 0
  await fill(opened, owned, frames.slice(0, 30))
  t.equal(await redis.xlen(keys.frames(ref, owned.message)), 30, 'not said: all stay')
  const said = 'all of them'
  const batch = { first: 30, count: 1, text: frames[30] ?? '', said }
  await rows.append(owned, batch)
  const kept = await redis.xlen(keys.frames(ref, owned.message))
  t.equal(kept, Math.floor(1000 / size))
  t.match(await rows.words(owned), { said, saidNext: 31, next: 31 })
  t.equal(await rows.frames(owned, 0), undefined, 'no longer kept')
  t.equal(await rows.frames(owned, 30 - kept), undefined)
  t.equal((await rows.frames(owned, 31 - kept))?.text, frames.slice(31 - kept, 31).join(''))
  await rows.append(owned, { first: 31, count: 1, text: 'y'.repeat(5000) })
  t.match(await rows.frames(owned, 31), undefined, 'a text without its id is no frame')
  t.equal(await redis.xlen(keys.frames(ref, owned.message)), 1, 'the newest stays, however large')
  t.equal(await redis.hget(keys.stream(ref, owned.message), 'bytes'), '5000')
})

t.test('a stream that begins again drops its frames, and repeats its words', async (t) => {
  const opened = await openStreams(t)
  const { rows, start } = opened
  const owned = await start()
  const frames = framesOf(owned.message, ['a', 'b', 'c', 'd', 'e', 'f'])
  await fill(opened, owned, frames.slice(0, 2))
  const text = frames.slice(4).join('')
  const anew = { first: 4, count: 2, text, said: 'abcdef', replaces: true }
  t.match(await rows.append(owned, anew), { word: 'ok' })
  t.equal(await rows.frames(owned, 0), undefined)
  t.equal(await rows.frames(owned, 3), undefined)
  t.equal((await rows.frames(owned, 4))?.text, text)
  t.match(await rows.words(owned), { next: 6, said: 'abcdef', saidNext: 6 })
})

t.test('finished twice is once: row, bytes, lock, and frames that go after a while', async (t) => {
  const opened = await openStreams(t, { replayKeepMs: 100_000 })
  const { rows, start, redis, ref, row } = opened
  const owned = await start()
  const [first = '', last = ''] = framesOf(owned.message, ['a', '[DONE]'])
  await rows.append(owned, { first: 0, count: 1, text: first, said: 'a' })
  const end = { first: 1, count: 1, text: last }
  const behind = await rows.finish(owned, { ...end, first: 2 }, done(owned.message))
  t.same(behind, { word: 'behind', next: 1 })
  t.match(await row(owned), { status: 'in_progress' })
  t.match(await rows.finish(owned, end, done(owned.message)), { word: 'ok' })
  const after = await all(opened)
  t.match(await rows.finish(owned, end, done(newId('msg'))), { word: 'ok' })
  t.same(await all(opened), after)
  t.match(await rows.finish(owned, { ...end, count: 2 }, ''), { word: 'lost' })
  t.match(await row(owned), { status: 'completed', content: 'x' })
  t.same(await rows.frames(owned, 0), { text: first + last, next: 2, isEnd: true, isLost: false })
  t.match(await rows.state(owned), { isEnded: true, isLost: false, next: 2 })
  t.match(await rows.words(owned), { said: '' })
  const session = await redis.hgetall(keys.session(ref, owned.session))
  t.equal(session.active, undefined)
  const values = await redis.hvals(keys.messages(ref, owned.session))
  t.equal(Number(session.bytes), values.join('').length)
  for (const name of [keys.stream(ref, owned.message), keys.frames(ref, owned.message)]) {
    const ttl = await redis.pttl(name)
    t.ok(ttl > 90_000 && ttl <= 100_000, name)
  }
})

t.test('a withdrawn send leaves no key but its session, which is free again', async (t) => {
  const opened = await openStreams(t)
  const { rows, send, redis, ref } = opened
  const claim = { key: keys.claim(ref, 'k'), running: 'mine', kept: 'pointer' }
  await redis.set(claim.key, claim.running)
  const request = await send({ claim })
  await rows.begin(request)
  const claims = async () => (await redis.hget(keys.storage(ref), 'claims'))?.split(' ').slice(1)
  t.strictSame(await claims(), ['86400000', '320', '0'])
  await rows.append(request, { first: 0, count: 1, text: 'x' })
  const ids = request.rows.map(([id]) => id)
  await rows.withdraw(request, { ids, claim })
  t.strictSame(await claims(), ['86400000', '0', '0'])
  const { session } = request
  t.same(
    (await redis.keys('*')).toSorted(),
    [
      keys.holdRows(ref),
      keys.session(ref, session),
      keys.sessions(ref),
      keys.storage(ref),
    ].toSorted(),
  )
  const kept = await redis.hgetall(keys.session(ref, session))
  t.match(kept, { bytes: '0', counted: '0', messages: '0', active: undefined, title: 'T' })
  t.match(await rows.begin(await send({ session, seen: `${kept.last}:0` })), { word: 'ok' })
})

t.test("a claim that stands for another's message is not withdrawn", async (t) => {
  const { rows, start, redis, ref } = await openStreams(t)
  const request = await start()
  const claim = { key: keys.claim(ref, 'k'), running: 'mine', kept: 'pointer' }
  await redis.set(claim.key, 'taken again')
  await rows.withdraw(request, { ids: request.rows.map(([id]) => id), claim })
  t.equal(await redis.get(claim.key), 'taken again')
})

t.test('an owner hears of a cancel at each append; what has ended is not cancelled', async (t) => {
  const { rows, start } = await openStreams(t)
  const owned = await start()
  t.equal(await rows.cancel(owned), true)
  t.equal(await rows.cancel(owned), true)
  const cancelled = { word: 'ok', isCancelled: true }
  t.same(await rows.append(owned, { first: 0, count: 0, text: '' }), cancelled)
  t.same(await rows.append(owned, { first: 0, count: 1, text: 'x' }), cancelled)
  await rows.finish(owned, { first: 1, count: 1, text: 'y' }, done(owned.message))
  t.equal(await rows.cancel(owned), false)
  t.equal(await rows.cancel({ ...owned, message: newId('msg') }), false)
})

t.test('an owner is gone when its hold is, and it has been silent; not before', async (t) => {
  const opened = await openStreams(t, { leaseMs: 1000 })
  const { rows, start, redis, ref, row, silence, lease } = opened
  // Shortly after a start of Redis, no owner counts as gone.
  await until(async () => !(await redis.info('server')).includes('uptime_in_seconds:0'))
  const owned = await start()
  const end = { reached: 0, terminal: 'data: {}\n\n', row: done(owned.message) }
  await redis.hdel(keys.holdRows(ref), owned.hold)
  const touchedMs = Number(await redis.hget(keys.stream(ref, owned.message), 'touched'))
  t.ok(Math.abs(Date.now() - touchedMs) < 60_000)
  // The owner was heard of just now, even for a slow machine.
  await redis.hset(keys.stream(ref, owned.message), 'touched', Date.now() + 60_000)
  t.equal(await rows.finishLost(owned, end), false, 'it was heard of just now')
  await silence(owned)
  await lease(owned.hold, Date.now() + 60_000)
  t.equal(await rows.finishLost(owned, end), false, 'its lease stands')
  await lease(owned.hold, Date.now() - 1)
  const young = await openStreams(t, { server: opened.server, leaseMs: 3_600_000 })
  t.equal(await young.rows.finishLost(owned, end), false, 'after a start nobody could renew')
  t.equal(await rows.finishLost(owned, { ...end, reached: 1 }), false, 'it has moved')
  t.equal(await rows.finishLost({ ...owned, hold: newHoldId() }, end), false, 'of another')
  t.match(await row(owned), { status: 'in_progress' })
  t.equal(await rows.finishLost(owned, end), true)
  const after = await all(opened)
  t.equal(await rows.finishLost(owned, end), true, 'twice')
  t.same(await all(opened), after)
  t.match(await row(owned), { status: 'completed' })
  t.match(await rows.state(owned), { isEnded: true, isLost: true, next: 1 })
  const text = `id: ${owned.message}:0\ndata: {}\n\n`
  t.same(await rows.frames(owned, 0), { text, next: 1, isEnd: true, isLost: true })
  t.equal(await redis.hget(keys.session(ref, owned.session), 'active'), null)
})

t.test('an owner that wakes too late is told so, also with as many frames', async (t) => {
  const opened = await openStreams(t)
  const { rows, start, silence, row } = opened
  const owned = await start()
  await silence(owned)
  const incomplete = JSON.stringify(rowOf({ id: owned.message, status: 'incomplete' }))
  await rows.finishLost(owned, { reached: 0, terminal: 'data: {}\n\n', row: incomplete })
  const after = await all(opened)
  const end = { first: 0, count: 1, text: 'x' }
  t.same(await rows.append(owned, end), { word: 'lost' })
  const failed = JSON.stringify(rowOf({ id: owned.message, status: 'failed' }))
  t.same(await rows.finish(owned, end, failed), { word: 'lost' })
  t.same(await all(opened), after)
  t.match(await row(owned), { status: 'incomplete' })
})

/** A message of which Redis has two frames, ended by another gateway. */
async function endedElsewhere(t: Test, setup: Setup = {}) {
  const opened = await openStreams(t, setup)
  const { rows, start, silence } = opened
  const owned = await start()
  const frames = framesOf(owned.message, ['0', '1', '2', '3'])
  await rows.append(owned, { first: 0, count: 2, text: frames.slice(0, 2).join('') })
  await silence(owned)
  const row = JSON.stringify(rowOf({ id: owned.message, status: 'incomplete', content: '01' }))
  await rows.finishLost(owned, { reached: 2, terminal: 'data: {"error":1}\n\n', row })
  const rest = (from: number) => ({
    first: from,
    count: frames.length - from,
    text: frames.slice(from).join(''),
  })
  return { ...opened, owned, frames, rest }
}

type EndedElsewhere = Awaited<ReturnType<typeof endedElsewhere>>

t.test('an owner with a whole answer puts it in the place of the other end, once', async (t) => {
  const opened = await endedElsewhere(t)
  const { rows, owned, frames, rest, row, redis, ref } = opened
  const whole = done(owned.message)
  t.same(await rows.finish(owned, rest(3), whole), { word: 'behind', next: 2 })
  t.same(await rows.finish(owned, rest(1), whole), { word: 'behind', next: 2 })
  t.match(await row(owned), { status: 'incomplete' })
  t.match(await rows.finish(owned, rest(2), whole), { word: 'ok' })
  const after = await all(opened)
  t.match(await rows.finish(owned, rest(2), whole), { word: 'ok' }, 'its reply was lost')
  t.same(await all(opened), after)
  t.match(await row(owned), { status: 'completed', content: 'x' })
  const end = { next: 4, isEnd: true, isLost: false }
  t.same(await rows.frames(owned, 0), { text: frames.join(''), ...end })
  t.same(await rows.frames(owned, 3), { text: frames[3], ...end })
  const state = { isEnded: true, isLost: false, next: 4 }
  t.match(await rows.state(owned), state)
  t.ok((await redis.pttl(keys.frames(ref, owned.message))) > 0)
  const { session } = owned
  const sizes = (await redis.hvals(keys.messages(ref, session))).map((text) => text.length)
  const bytes = sizes.reduce((sum, size) => sum + size, 0)
  t.equal(Number(await redis.hget(keys.session(ref, session), 'bytes')), bytes)
  const counted = sizes.reduce((sum, size) => sum + 512 + size + Math.ceil(size / 4), 0)
  t.equal(Number(await redis.hget(keys.session(ref, session), 'counted')), counted)
  t.equal(Number(await redis.hget(keys.storage(ref), 'sessions')), counted)
})

t.test('all frames count in the storage as long as the whole answer is kept', async (t) => {
  for (const replaces of [false, true]) {
    const { rows, owned, frames, rest, redis, ref } = await endedElsewhere(t, { server: shared })
    const counted = async () => {
      const [, , since] = (await redis.hget(keys.storage(ref), 'frames'))?.split(' ') ?? []
      return Number(since)
    }
    const before = await counted()
    await rows.finish(owned, { ...rest(2), replaces }, done(owned.message))
    const kept = frames.slice(replaces ? 2 : 0).join('')
    t.equal((await counted()) - before, 1024 + Math.ceil(kept.length * 1.25))
  }
})

t.test('one more frame than Redis had, or fewer frames kept, are put there too', async (t) => {
  const one = await endedElsewhere(t)
  const last = { first: 2, count: 1, text: one.frames[2] ?? '' }
  t.match(await one.rows.finish(one.owned, last, done(one.owned.message)), { word: 'ok' })
  t.match(await one.rows.frames(one.owned, 1), { next: 3, isEnd: true })
  const some = await endedElsewhere(t)
  const anew = { ...some.rest(3), replaces: true }
  t.match(await some.rows.finish(some.owned, anew, done(some.owned.message)), { word: 'ok' })
  t.equal(await some.rows.frames(some.owned, 0), undefined, 'no longer kept')
  t.match(await some.rows.frames(some.owned, 3), { text: some.frames[3], isEnd: true })
})

t.test(
  'the other end stays where the session has gone on, or the answer is not whole',
  async (t) => {
    const lost = { word: 'lost' }
    const cases: Readonly<Record<string, (one: EndedElsewhere) => Promise<unknown>>> = {
      'a message was sent': ({ redis, ref, owned }) =>
        redis.hset(keys.session(ref, owned.session), 'last', newId('msg')),
      'an answer is generated': ({ redis, ref, owned }) =>
        redis.hset(keys.session(ref, owned.session), 'active', newId('msg')),
      'it was cancelled': ({ redis, ref, owned }) =>
        redis.hset(keys.stream(ref, owned.message), 'cancelled', 1),
      'the session was deleted': ({ redis, ref, owned }) =>
        redis.del(keys.session(ref, owned.session)),
      'the message was deleted': ({ redis, ref, owned }) =>
        redis.hdel(keys.messages(ref, owned.session), owned.message),
      'another owner has it': ({ redis, ref, owned }) =>
        redis.hset(keys.stream(ref, owned.message), 'hold', newHoldId()),
    }
    for (const [name, change] of Object.entries(cases)) {
      const one = await endedElsewhere(t, { server: shared })
      await change(one)
      const before = await all(one)
      t.same(await one.rows.finish(one.owned, one.rest(2), done(one.owned.message)), lost, name)
      t.same(await all(one), before, name)
    }
    const { rows, owned, rest } = await endedElsewhere(t, { server: shared })
    const cut = JSON.stringify(rowOf({ id: owned.message, status: 'failed', content: 'x' }))
    t.same(await rows.finish(owned, rest(2), cut), lost, 'the answer failed')
  },
)

t.test('a send does not begin with a history that has got another end since', async (t) => {
  const opened = await endedElsewhere(t)
  const { rows, owned, rest, scripts, waking, ref, send, start } = opened
  const { session } = owned
  const begin = async ({ seen }: Pick<Context, 'seen'>) => {
    const { word } = await rows.begin(await send({ session, seen }))
    return word
  }
  const part = await readContext({ scripts, waking }, ref, session)
  t.match(await rows.finish(owned, rest(2), done(owned.message)), { word: 'ok' })
  t.equal(await begin(part), 'changed', 'it has read a part of the answer')
  t.equal(await begin(await readContext({ scripts, waking }, ref, session)), 'ok')
  const running = await start()
  const none = await readContext({ scripts, waking }, ref, running.session)
  await rows.finish(running, { first: 0, count: 1, text: 'x' }, done(running.message))
  const late = await send({ session: running.session, seen: none.seen })
  t.same(await rows.begin(late), { word: 'changed' }, 'it has read nothing of the answer')
})

t.test('when the frames are no longer kept, the whole answer is the row alone', async (t) => {
  const { rows, owned, rest, row, redis, ref } = await endedElsewhere(t)
  await redis.del(keys.stream(ref, owned.message), keys.frames(ref, owned.message))
  t.match(await rows.finish(owned, rest(2), done(owned.message)), { word: 'ok' })
  t.match(await row(owned), { status: 'completed', content: 'x' })
  t.equal(await redis.exists(keys.stream(ref, owned.message)), 0)
})

t.test('an owner that wakes too late corrects the cost, and nothing else', async (t) => {
  const { rows, start, silence, row, redis, scripts, ref } = await openStreams(t)
  const owned = await start()
  const usage = { prompt_tokens: 1, completion_tokens: 20, total_tokens: 21, estimated: true }
  await rows.amend(owned, { cost: 21, usage })
  t.match(await row(owned), { status: 'in_progress', cost: null }, 'not one that goes on')
  await silence(owned)
  const incomplete = rowOf({ id: owned.message, status: 'incomplete', content: 'é', cost: 3 })
  const end = { reached: 0, terminal: 'data: {}\n\n', row: JSON.stringify(incomplete) }
  await rows.finishLost(owned, end)
  const names = [keys.session(ref, owned.session), keys.messages(ref, owned.session)] as const
  const bytes = async () => Number(await redis.hget(names[0], 'bytes'))
  const size = async () => Buffer.byteLength((await redis.hvals(names[1])).join(''))
  t.equal(await bytes(), await size())
  await rows.amend(owned, { cost: 21, usage })
  t.same(await row(owned), { ...incomplete, cost: 21, usage })
  t.equal(await bytes(), await size())
  const stale = await scripts.run('amend', names, [owned.message, '{}', '{"x":1}'])
  t.equal(stale.word, 'changed', 'it has moved')
  await redis.del(...names)
  await rows.amend(owned, { cost: 22, usage })
  t.same(await redis.exists(...names), 0, 'it is gone')
})

t.test('a message whose session was deleted stays deleted', async (t) => {
  const { rows, start, redis, ref } = await openStreams(t)
  const owned = await start()
  const { session, message } = owned
  await redis.del(keys.session(ref, session), keys.messages(ref, session))
  await redis.del(keys.messageIds(ref, session))
  await rows.finish(owned, { first: 0, count: 1, text: 'x' }, done(message))
  t.same(await redis.keys('*:session:*'), [])
})

t.test('where sessions expire, the frames of a message that nobody ends do too', async (t) => {
  const { rows, start, redis, ref } = await openStreams(t, { retentionS: 500 })
  const owned = await start()
  await rows.append(owned, { first: 0, count: 1, text: 'x' })
  await rows.append(owned, { first: 1, count: 1, text: 'y' })
  const ttl = await redis.ttl(keys.frames(ref, owned.message))
  t.ok(ttl > 400 && ttl <= 500)
})

t.test("every script runs on a Cluster's node, where foreign slots are refused", async (t) => {
  const bus = ['--cluster-port', `${await freePort()}`, '--bind', '127.0.0.1']
  const args = ['--cluster-enabled', 'yes', ...bus]
  const { rows, redis, start, silence, scripts, ref } = await openStreams(t, { args })
  await redis.cluster('ADDSLOTSRANGE', 0, 16383)
  await until(async () => (await redis.cluster('INFO')).includes('cluster_state:ok'))
  const owned = await start()
  t.match(await rows.append(owned, { first: 0, count: 1, text: 'x' }), { word: 'ok' })
  t.equal(await rows.cancel(owned), true)
  const end = { first: 1, count: 1, text: 'y' }
  t.match(await rows.finish(owned, end, done(owned.message)), { word: 'ok' })
  const gone = await start()
  await silence(gone)
  t.ok(await rows.finishLost(gone, { reached: 0, terminal: 'data: {}\n\n', row: '{}' }))
  const back = await start()
  await rows.withdraw(back, { ids: back.rows.map(([id]) => id) })
  t.equal(await rows.state(back), undefined)
  const { session } = owned
  const names = [keys.session(ref, session), keys.messageIds(ref, session)]
  const recent = await scripts.run(
    'recent',
    [...names, keys.messages(ref, session)],
    ['', '9', '9', '1'],
  )
  t.equal(recent.word, 'ok')
  const spot = [keys.session(ref, session), keys.messages(ref, session)]
  t.match(await scripts.run('amend', spot, [owned.message, 'x', 'y']), { word: 'changed' })
})

t.test('with Redis away each of them says so, and nothing else', async (t) => {
  const { rows, start, server } = await openStreams(t)
  const owned = await start()
  await server.stop()
  const away = { code: 'ledger_unavailable' }
  const batch = { first: 0, count: 1, text: 'x' }
  await t.rejects(rows.begin(owned), away)
  await t.rejects(rows.append(owned, batch), away)
  await t.rejects(rows.finish(owned, batch, '{}'), away)
  await t.rejects(rows.withdraw(owned, { ids: [] }), away)
  await t.rejects(rows.state(owned), away)
  await t.rejects(rows.frames(owned, 0), away)
  await t.rejects(rows.cancel(owned), away)
})

/** A message in progress whose session fell asleep all the same: Redis had forgotten that it is active. */
async function asleepMeanwhile(t: Test) {
  const opened = await openStreams(t, { server: shared })
  const { redis, ref, start, asleepParts } = opened
  const owned = await start()
  const place = { ref, session: owned.session }
  await redis.hdel(keys.session(ref, owned.session), 'active')
  t.ok(await putToSleep(asleepParts, place))
  const row = await redis.hgetall(keys.session(ref, owned.session))
  const unchanged = async (what: string) => {
    t.strictSame(await storedIn(redis, place), { ids: [], rows: {} }, what)
    t.match(await redis.hgetall(keys.session(ref, owned.session)), row, what)
  }
  return { ...opened, owned, place, unchanged }
}

t.test('a late owner writes no rows into a session that sleeps in the store', async (t) => {
  const { rows, owned, unchanged, redis, ref, silence } = await asleepMeanwhile(t)
  const { message } = owned
  const rest = { first: 0, count: 1, text: 'x' }
  t.same(await rows.finish(owned, rest, done(message)), { word: 'lost' })
  await unchanged('finish')
  t.equal(await redis.exists(keys.frames(ref, message)), 0, 'nor frames')
  await silence(owned)
  const end = { reached: 0, terminal: 'data: x\n\n', row: done(message) }
  t.equal(await rows.finishLost(owned, end), true)
  await unchanged('lost')
  await rows.withdraw(owned, { ids: owned.rows.map(([id]) => id) })
  await unchanged('withdraw')
  await redis.unlink(keys.stream(ref, message))
  t.same(await rows.append(owned, rest), { word: 'lost' })
  t.same(await rows.finish(owned, rest, done(message)), { word: 'lost' })
  await unchanged('an owner whose stream Redis has lost')
  t.equal(await redis.exists(keys.stream(ref, message)), 0)
})

t.test('a row that is back while its session still wakes is not changed', async (t) => {
  const { rows, owned, unchanged, redis, ref, place, row } = await asleepMeanwhile(t)
  const { session, message } = owned
  const partial = async (status: 'incomplete' | 'completed') => {
    const text = JSON.stringify(rowOf({ id: message, status, cost: 1 }))
    await redis.hset(keys.messages(ref, session), message, text)
  }
  await partial('completed')
  await rows.amend(owned, { cost: 5, usage: null })
  t.match(await row(owned), { cost: 1 })
  await partial('incomplete')
  await redis.unlink(keys.stream(ref, message))
  const rest = { first: 0, count: 1, text: 'x' }
  t.same(await rows.finish(owned, rest, done(message)), { word: 'lost' })
  t.match(await row(owned), { status: 'incomplete' })
  await redis.unlink(keys.messages(ref, place.session))
  await unchanged('both')
})

t.test(
  'a send into a session that fell asleep since it was read begins with all of it',
  async (t) => {
    const opened = await openStreams(t, { server: shared })
    const { redis, ref, rows, send, start, asleepParts, scripts, waking } = opened
    const owned = await start()
    const { session } = owned
    await rows.finish(owned, { first: 0, count: 1, text: 'x' }, done(owned.message))
    const place = { ref, session }
    const before = await storedIn(redis, place)
    const { seen } = await readContext({ scripts, waking }, ref, session)
    t.ok(await putToSleep(asleepParts, place))
    const next = await send({ session, seen })
    t.same(await rows.begin(next), { word: 'ok' })
    const ids = next.rows.map(([id]) => id)
    t.strictSame(await storedIn(redis, place), {
      ids: [...before.ids, ...ids],
      rows: { ...before.rows, ...Object.fromEntries(next.rows) },
    })
  },
)

t.test('frames that come in the last millisecond of a stream go with it', async (t) => {
  const { rows, redis, ref, start } = await openStreams(t, { retentionS: 100 })
  for (let i = 0; i < 60; i++) {
    const owned = await start()
    const { session, message } = owned
    const left = 1 + (i % 3)
    const stream = keys.stream(ref, message)
    await Promise.all([stream, keys.session(ref, session)].map((key) => redis.pexpire(key, left)))
    await rows.append(owned, { first: 0, count: 1, text: 'x' })
    for (const key of [stream, keys.frames(ref, message)])
      t.not(await redis.pttl(key), -1, 'it does not stay for ever')
  }
})
