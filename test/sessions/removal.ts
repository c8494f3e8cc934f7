import t from 'tap'
import { newId } from '../../src/ids.ts'
import { keys } from '../../src/redis/redis.ts'
import { removeSession } from '../../src/sessions/removal.ts'
import type { SessionScripts } from '../../src/sessions/library.ts'
import { addMessage, openSessions } from '../fixtures/sessions.ts'

t.test('a session leaves nothing behind, and other sessions stay', async (t) => {
  const { book, options, ref, redis } = await openSessions(t)
  const { id: other } = await book.create(ref, {})
  const stays = await addMessage(redis, { ref, session: other })
  const before = (await redis.keys('*')).toSorted()
  const { id: session } = await book.create(ref, {})
  for (let i = 0; i < 3; i++) await addMessage(redis, { ref, session })
  await removeSession(options, ref, session)
  t.strictSame((await redis.keys('*')).toSorted(), before)
  t.strictSame(await redis.zrange(keys.sessions(ref), '0', '-1'), [other])
  t.equal(await redis.exists(keys.stream(ref, stays.id)), 1)
  await t.rejects(removeSession(options, ref, session), { code: 'session_not_found' })
})

t.test('the owner of a running generation is told, and its stream stays a while', async (t) => {
  const { book, options, ref, redis } = await openSessions(t, { replayKeepMs: 60_000 })
  const { id: session } = await book.create(ref, {})
  const { id: ended } = await addMessage(redis, { ref, session })
  const { id } = await addMessage(redis, { ref, session }, { status: 'in_progress' })
  await removeSession(options, ref, session)
  t.equal(await redis.hget(keys.stream(ref, id), 'cancelled'), '1')
  for (const key of [keys.stream(ref, id), keys.frames(ref, id)]) {
    const ttl = await redis.ttl(key)
    t.ok(ttl > 50 && ttl <= 60, `${key}: ${ttl}`)
  }
  t.equal(await redis.exists(keys.stream(ref, ended), keys.frames(ref, ended)), 0)
  t.equal(await redis.exists(keys.messages(ref, session)), 0)
})

t.test('no stream is made for a generation whose stream is gone', async (t) => {
  const { book, options, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  await redis.hset(keys.session(ref, session), { active: newId('msg') })
  await removeSession(options, ref, session)
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
  await removeSession({ ...options, scripts }, ref, session)
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
  await removeSession({ ...options, scripts }, ref, session)
  t.strictSame(await redis.keys('*'), [])
})

t.test('hundreds of messages are forgotten as well', async (t) => {
  const { book, options, ref, redis } = await openSessions(t)
  const { id: session } = await book.create(ref, {})
  await Promise.all(Array.from({ length: 1001 }, () => addMessage(redis, { ref, session })))
  await removeSession(options, ref, session)
  t.strictSame(await redis.keys('*'), [])
})
