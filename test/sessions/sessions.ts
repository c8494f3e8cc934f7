import t from 'tap'
import { claimOf } from '../../src/redis/claims.ts'
import { idAfter, newId } from '../../src/ids.ts'
import { newRef } from '../../src/accounts/api-key.ts'
import { keys } from '../../src/redis/keys.ts'
import type { SessionScripts } from '../../src/sessions/library.ts'
import { SessionBook, retentionS, sessionOf } from '../../src/sessions/sessions.ts'
import { addMessage, openSessions } from '../fixtures/sessions.ts'

const full = {
  title: 'Ünïcode 🎉',
  model: 'm',
  instructions: 'Be brief.\n',
  metadata: { a: '1', b: '' },
}

/** `released` counts how many times it was released. */
function claim(key: string) {
  const released = { count: 0 }
  const words = (pointer: string) => ({ key, running: 'mine', kept: `kept ${pointer}` })
  return { ...claimOf(words, async () => void released.count++), key, released }
}

const quotaBytes = 1e9

t.test('a session has the given fields, and is read back the same', async (t) => {
  const { book, ref } = await openSessions(t)
  const empty = await book.create(ref, {})
  t.match(empty, {
    id: /^sess_[0-9a-f]{32}$/,
    object: 'chat.session',
    title: null,
    model: null,
    instructions: null,
    metadata: {},
    message_count: 0,
    active_message_id: null,
  })
  t.ok(Math.abs(empty.created_at - Date.now() / 1000) < 60)
  t.equal(empty.updated_at, empty.created_at)
  const made = await book.create(ref, full)
  t.match(made, full)
  t.strictSame(await book.read(ref, made.id), made)
  t.strictSame(await book.read(ref, empty.id), empty)
})

t.test('its row says what is running in it', async (t) => {
  const { book, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  await addMessage(redis, { ref, session })
  const { id } = await addMessage(redis, { ref, session }, { status: 'in_progress' })
  t.match(await book.read(ref, session), { message_count: 2, active_message_id: id })
  t.equal(sessionOf({}), undefined)
})

t.test("an unknown id, and somebody else's, are no session, in every call", async (t) => {
  const { book, ref, redis } = await openSessions(t)
  const { id } = await book.create(ref, {})
  const gone = { code: 'session_not_found' }
  for (const [whose, which] of [
    [newRef(), id],
    [ref, newId('sess')],
    [ref, 'sess_'],
    [ref, ''],
    [ref, '*'],
    [ref, `${id}:messages`],
  ] as const) {
    await t.rejects(book.read(whose, which), gone)
    await t.rejects(book.patch(whose, which, {}), gone)
    await t.rejects(book.patch(whose, which, { title: 'x' }), gone)
    await t.rejects(book.remove(whose, which), gone)
  }
  t.match(await book.read(ref, id), { title: null })
  t.equal(await redis.dbsize(), 3, 'the session, the list, the storage, and no row of nobody')
})

t.test('a new id is greater than the last, also if that came from a fast clock', async (t) => {
  const { book, ref, redis } = await openSessions(t)
  const ahead = `sess_${'f'.repeat(12)}7fffb${'f'.repeat(14)}0`
  await redis.zadd(keys.sessions(ref), 0, ahead)
  const first = await book.create(ref, { title: 'first' })
  t.equal(first.id, idAfter(ahead))
  const others = await Promise.all(Array.from({ length: 10 }, () => book.create(ref, {})))
  const ids = [first.id, ...others.map(({ id }) => id)]
  t.equal(new Set(ids).size, 11)
  t.equal(await redis.zcard(keys.sessions(ref)), 12)
  t.match(await book.read(ref, first.id), { title: 'first' })
})

t.test('a change replaces what it names, and null clears it', async (t) => {
  const { book, ref, redis } = await openSessions(t)
  const { id, created_at } = await book.create(ref, full)
  await redis.hset(keys.session(ref, id), { updated_at: 5, created_at: 5 })
  t.match(await book.patch(ref, id, {}), { ...full, updated_at: 5 }, 'nothing changes nothing')
  const titled = await book.patch(ref, id, { title: 'new', metadata: { c: '3' } })
  t.match(titled, { title: 'new', model: 'm', instructions: full.instructions })
  t.strictSame(titled.metadata, { c: '3' })
  t.ok(titled.updated_at >= created_at)
  const cleared = await book.patch(ref, id, {
    title: null,
    model: null,
    instructions: null,
    metadata: null,
  })
  t.match(cleared, { id, title: null, model: null, instructions: null })
  t.strictSame(cleared.metadata, {})
  t.strictSame(await book.read(ref, id), cleared)
})

t.test('a change of a session that a fast clock made does not date before it', async (t) => {
  const { book, ref, redis } = await openSessions(t)
  const { id } = await book.create(ref, {})
  const ahead = Math.floor(Date.now() / 1000) + 1000
  await redis.hset(keys.session(ref, id), { created_at: ahead })
  t.equal((await book.patch(ref, id, { title: 'x' })).updated_at, ahead)
})

t.test('a claim is kept in the step that creates, and a lost one creates nothing', async (t) => {
  const { book, ref, redis } = await openSessions(t)
  const own = claim(keys.claim(ref, 'one'))
  const refusal = { code: 'idempotency_in_progress', retryAfterMs: 1000 }
  await t.rejects(book.create(ref, {}, { claim: own, quotaBytes }), refusal, 'it has expired')
  await redis.set(own.key, 'theirs')
  await t.rejects(book.create(ref, {}, { claim: own, quotaBytes }), refusal, 'another try has it')
  await own.release()
  t.equal(own.released.count, 1)
  t.equal(await redis.zcard(keys.sessions(ref)), 0)
  t.equal(await redis.get(own.key), 'theirs')
  await redis.set(own.key, 'mine')
  const { id } = await book.create(ref, {}, { claim: own, quotaBytes })
  await own.release()
  t.equal(own.released.count, 1, 'kept')
  t.equal(await redis.get(own.key), `kept ${id}`)
  const ttl = await redis.ttl(own.key)
  t.ok(ttl > 86_300 && ttl <= 86_400, String(ttl))
})

t.test('the kept claim has the id that the session got in the end', async (t) => {
  const { book, ref, redis } = await openSessions(t)
  await redis.zadd(keys.sessions(ref), 0, `sess_${'f'.repeat(12)}7fffb${'f'.repeat(14)}0`)
  const own = claim(keys.claim(ref, 'one'))
  await redis.set(own.key, 'mine')
  const { id } = await book.create(ref, {}, { claim: own, quotaBytes })
  t.equal(await redis.get(own.key), `kept ${id}`)
})

t.test('without retention nothing expires; with it every change starts it again', async (t) => {
  const { book, ref, redis } = await openSessions(t)
  const { id } = await book.create(ref, {})
  t.equal(await redis.ttl(keys.session(ref, id)), -1)
  const kept = await openSessions(t, { retentionMs: 60_000 })
  const { id: session } = await kept.book.create(kept.ref, {})
  const place = { ref: kept.ref, session }
  await addMessage(kept.redis, place)
  const own = [keys.session, keys.messageIds, keys.messages].map((key) => key(kept.ref, session))
  t.ok((await kept.redis.ttl(own[0] ?? '')) > 50)
  await kept.redis.expire(own[0] ?? '', 5)
  await kept.book.patch(kept.ref, session, { title: 'x' })
  for (const key of own) t.ok((await kept.redis.ttl(key)) > 50, key)
  t.equal(retentionS({ retentionMs: 1 }), 1, 'a part of a second is not for ever')
})

t.test('beyond the quota a session can become smaller, and not larger', async (t) => {
  const { book, ref } = await openSessions(t)
  const { id } = await book.create(ref, { ...full, instructions: 'x'.repeat(10_000) })
  const quota = { quotaBytes: 1 }
  const shorter = await book.patch(ref, id, { instructions: 'x' }, quota)
  t.equal(shorter.instructions, 'x')
  const longer = book.patch(ref, id, { instructions: 'x'.repeat(1000) }, quota)
  await t.rejects(longer, { code: 'storage_quota_exceeded' })
  t.equal((await book.read(ref, id)).instructions, 'x')
})

t.test('a session leaves nothing behind, and other sessions stay', async (t) => {
  const { book, ref, redis } = await openSessions(t)
  const { id: other } = await book.create(ref, {})
  const stays = await addMessage(redis, { ref, session: other })
  const before = (await redis.keys('*')).toSorted()
  const { id: session } = await book.create(ref, {})
  for (let i = 0; i < 3; i++) await addMessage(redis, { ref, session })
  await book.remove(ref, session)
  t.strictSame((await redis.keys('*')).toSorted(), before)
  t.strictSame(await redis.zrange(keys.sessions(ref), '0', '-1'), [other])
  t.equal(await redis.exists(keys.stream(ref, stays.id)), 1)
  await t.rejects(book.remove(ref, session), { code: 'session_not_found' })
})

t.test('the owner of a running generation is told, and its stream stays a while', async (t) => {
  const { book, ref, redis } = await openSessions(t, { replayKeepMs: 60_000 })
  const { id: session } = await book.create(ref, {})
  const { id: ended } = await addMessage(redis, { ref, session })
  const { id } = await addMessage(redis, { ref, session }, { status: 'in_progress' })
  await book.remove(ref, session)
  t.equal(await redis.hget(keys.stream(ref, id), 'cancelled'), '1')
  for (const key of [keys.stream(ref, id), keys.frames(ref, id)]) {
    const ttl = await redis.ttl(key)
    t.ok(ttl > 50 && ttl <= 60, `${key}: ${ttl}`)
  }
  t.equal(await redis.exists(keys.stream(ref, ended), keys.frames(ref, ended)), 0)
  t.equal(await redis.exists(keys.messages(ref, session)), 0)
})

t.test('no stream is made for a generation whose stream is gone', async (t) => {
  const { book, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  await redis.hset(keys.session(ref, session), { active: newId('msg') })
  await book.remove(ref, session)
  t.strictSame(await redis.keys('*'), [])
})

t.test('a message that is added between the look and the script is removed, too', async (t) => {
  const { book, options, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  const rivals = [{}, { status: 'in_progress' }, {}] as const
  let runs = 0
  const scripts: SessionScripts = {
    ...options.scripts,
    async run(name, ...call) {
      const rival = rivals[runs++]
      if (rival) await addMessage(redis, { ref, session }, rival)
      return options.scripts.run(name, ...call)
    },
  }
  await new SessionBook({ ...options, scripts }).remove(ref, session)
  t.equal(runs, 4)
  const left = (await redis.keys('*')).filter((key) => key !== keys.storage(ref))
  t.equal(left.length, 2, 'the stream of the running one, and its frames')
  for (const key of left) t.ok((await redis.ttl(key)) > 0, key)
})

t.test('a generation that ends between the look and the script leaves no stream', async (t) => {
  const { book, options, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  await addMessage(redis, { ref, session }, { status: 'in_progress' })
  const scripts: SessionScripts = {
    ...options.scripts,
    async run(name, ...call) {
      await redis.hdel(keys.session(ref, session), 'active')
      return options.scripts.run(name, ...call)
    },
  }
  await new SessionBook({ ...options, scripts }).remove(ref, session)
  t.strictSame(await redis.keys('*'), [])
})

t.test('hundreds of messages are forgotten as well', async (t) => {
  const { book, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  await Promise.all(Array.from({ length: 1001 }, () => addMessage(redis, { ref, session })))
  await book.remove(ref, session)
  t.strictSame(await redis.keys('*'), [])
})
