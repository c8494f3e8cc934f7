// A session falls asleep as a whole or not at all, and nothing that is cut in between loses a message or an object.

import t from 'tap'
import type { Test } from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import { keys } from '../../../src/redis/keys.ts'
import { pathOf } from '../../../src/sessions/asleep/object.ts'
import { putToSleep } from '../../../src/sessions/asleep/sleeping.ts'
import type { SleepingOptions } from '../../../src/sessions/asleep/sleeping.ts'
import { age, hooked, letObjectsAge, storedIn } from '../../fixtures/asleep.ts'
import { addMessage, addMessages, openSessions } from '../../fixtures/sessions.ts'
import { openStreams, rowOf } from '../../fixtures/stream.ts'

const all = { limit: 100, order: 'asc' } as const

async function start(t: Test, { count = 3, content = 'Hello' } = {}) {
  const it = await openSessions(t)
  const { book, ref, redis, asleepParts, store } = it
  const { id: session } = await book.create(ref, {})
  const place = { ref, session }
  await addMessages(redis, place, { count, content })
  await age(redis, place)
  const sleep = (more: Partial<SleepingOptions> = {}) =>
    putToSleep({ ...asleepParts, ...more }, place)
  return {
    ...it,
    place,
    session,
    sleep,
    objects: () => store.list('sessions/'),
    records: () => redis.zrange(keys.sessionObjects(ref), '0', '-1'),
    before: await storedIn(redis, place),
  }
}

t.test('a sleeping session is a hash in Redis, and an object in the store', async (t) => {
  const { sleep, redis, ref, session, objects, records, book } = await start(t)
  const storage = await redis.hgetall(keys.storage(ref))
  const { message_count } = await book.read(ref, session)
  t.equal(await sleep(), true)
  const object = (await redis.hget(keys.session(ref, session), 'asleep')) ?? ''
  t.strictSame(await objects(), [pathOf(ref, object)])
  t.strictSame(await records(), [object])
  t.equal(await redis.exists(keys.messageIds(ref, session), keys.messages(ref, session)), 0)
  t.strictSame(await redis.hgetall(keys.storage(ref)), storage, 'it counts as before')
  t.match(await book.read(ref, session), { message_count, updated_at: 1 })
  t.equal(await sleep(), false, 'it sleeps')
  t.strictSame(await objects(), [pathOf(ref, object)])
})

t.test('sessions with many messages, and with large ones, sleep as a whole', async (t) => {
  for (const size of [{ count: 1201 }, { count: 4, content: 'x'.repeat(900_000) }]) {
    const { sleep, messages, redis, place, before } = await start(t, size)
    t.equal(await sleep(), true)
    await messages.list(place, all)
    t.strictSame(await storedIn(redis, place), before)
  }
})

t.test('what is used meanwhile stays awake, and leaves nothing in the store', async (t) => {
  const uses: Record<string, (it: Awaited<ReturnType<typeof start>>) => Promise<unknown>> = {
    'a message': async ({ redis, place }) => addMessage(redis, place),
    'an answer in progress': async ({ redis, place }) =>
      addMessage(redis, place, { status: 'in_progress' }),
    'a title': async ({ book, ref, session }) => book.patch(ref, session, { title: 'new' }),
    'a wake': async ({ redis, ref, session }) =>
      redis.hset(keys.session(ref, session), { woken: 7 }),
    'a row that is lost': async ({ redis, ref, session, before }) =>
      redis.hdel(keys.messages(ref, session), before.ids[0] ?? ''),
    'an id that is lost': async ({ redis, ref, session, before }) =>
      redis.zrem(keys.messageIds(ref, session), before.ids[0] ?? ''),
    'another gateway': async ({ sleep }) => t.equal(await sleep(), true),
    'a deletion': async ({ book, ref, session }) => book.remove(ref, session),
  }
  for (const [what, use] of Object.entries(uses)) {
    const it = await start(t)
    const { sleep, scripts, redis, place, objects, records } = it
    let used = {}
    const using = hooked(scripts, 'sleep', async () => {
      await use(it)
      used = await storedIn(redis, place)
    })
    t.equal(await sleep({ scripts: using }), false, what)
    t.strictSame(await storedIn(redis, place), used, what)
    const left = what === 'another gateway' ? 1 : 0
    t.equal((await objects()).length, left, what)
    t.equal((await records()).length, left, what)
  }
})

t.test('another cost of a message, or another end, is noticed', async (t) => {
  const opened = await openStreams(t, { retentionS: 0 })
  const { redis, ref, rows, start, asleepParts, scripts } = opened
  const owned = await start()
  const { session, message } = owned
  const ended = rowOf({ id: message, status: 'completed', content: 'x', cost: 10 })
  await rows.finish(owned, { first: 0, count: 1, text: 'x' }, JSON.stringify(ended))
  const amending = hooked(scripts, 'sleep', () => rows.amend(owned, { cost: 11, usage: null }))
  const place = { ref, session }
  const parts = { ...asleepParts, scripts: amending }
  t.equal(await putToSleep(parts, place), false)
  t.match(JSON.parse((await redis.hget(keys.messages(ref, session), message)) ?? ''), { cost: 11 })
  t.equal(await putToSleep(asleepParts, place), true)
})

t.test('a gateway that is killed at any step loses nothing, and its object is found', async (t) => {
  const killed = async () => {
    throw new GatewayError('ledger_unavailable')
  }
  const cuts: Record<string, (it: Awaited<ReturnType<typeof start>>) => Partial<SleepingOptions>> =
    {
      'before the object': ({ store }) => ({ store: { ...store, put: killed } }),
      'after the object': ({ store }) => ({ store: { ...store, get: killed } }),
      'before the session names it': ({ scripts }) => ({
        scripts: hooked(scripts, 'sleep', killed),
      }),
    }
  for (const [what, cut] of Object.entries(cuts)) {
    const it = await start(t)
    const { sleep, redis, ref, session, place, rounds, objects, records } = it
    await t.rejects(sleep(cut(it)), { code: 'ledger_unavailable' }, what)
    t.strictSame(await storedIn(redis, place), it.before, what)
    t.notOk(await redis.hget(keys.session(ref, session), 'asleep'))
    t.equal((await records()).length, 1, what)
    t.match(await rounds.walk(0), { removed: 0 }, 'it may still be written')
    await letObjectsAge(redis, ref)
    t.match(await rounds.walk(0), { removed: 1 }, what)
    t.strictSame([...(await objects()), ...(await records())], [], what)
    t.equal(await sleep(), true, what)
  }
})

t.test('a session that names its object keeps it, though nobody heard of that', async (t) => {
  const it = await start(t)
  const { sleep, scripts, redis, ref, place, rounds, messages, before } = it
  const deaf: typeof scripts = {
    ...scripts,
    async run(name, ...call) {
      const reply = await scripts.run(name, ...call)
      if (name === 'sleep') throw new GatewayError('ledger_unavailable')
      return reply
    },
  }
  await t.rejects(sleep({ scripts: deaf }), { code: 'ledger_unavailable' })
  await letObjectsAge(redis, ref)
  t.match(await rounds.walk(0), { removed: 0 })
  await messages.list(place, all)
  t.strictSame(await storedIn(redis, place), before)
})

t.test('a gateway that was frozen for a day names no object that others remove', async (t) => {
  const it = await start(t)
  const { sleep, scripts, redis, ref, place, objects, records } = it
  const frozen = hooked(scripts, 'sleep', () => letObjectsAge(redis, ref))
  t.equal(await sleep({ scripts: frozen }), false)
  const swept = hooked(scripts, 'sleep', () => redis.del(keys.sessionObjects(ref)))
  t.equal(await sleep({ scripts: swept }), false)
  t.strictSame(await storedIn(redis, place), it.before)
  t.strictSame([...(await objects()), ...(await records())], [])
})

t.test('messages leave Redis only once the store has shown that it keeps them', async (t) => {
  const it = await start(t)
  const { sleep, store, redis, place } = it
  const forgetful = { ...store, get: async () => Buffer.from('something else') }
  await t.rejects(sleep({ store: forgetful }), /did not keep/)
  t.strictSame(await storedIn(redis, place), it.before)
})

t.test(
  'a session with an id that has no row is left alone, without a call of the store',
  async (t) => {
    const it = await start(t)
    const { sleep, store, redis, ref, session, before, records } = it
    await redis.hdel(keys.messages(ref, session), before.ids[0] ?? '')
    const put = async () => void t.fail('put')
    t.equal(await sleep({ store: { ...store, put } }), false)
    t.strictSame(await records(), [])
  },
)

t.test('a session that has lost its messages is left alone', async (t) => {
  const { sleep, redis, ref, session, place, messages, records } = await start(t)
  await redis.unlink(keys.messageIds(ref, session), keys.messages(ref, session))
  t.equal(await sleep(), false)
  t.strictSame(await records(), [])
  t.match(await messages.list(place, all), { data: [] })
})

t.test('a session that was used since it was found stays awake', async (t) => {
  const { asleepParts, place, redis, ref, session } = await start(t)
  const hourMs = 3_600_000
  for (const [field, value] of [
    ['updated_at', Math.floor(Date.now() / 1000)],
    ['woken', Date.now()],
  ] as const) {
    await redis.hset(keys.session(ref, session), field, value)
    t.equal(await putToSleep(asleepParts, place, hourMs), false, field)
    await age(redis, place)
  }
  t.equal(await putToSleep(asleepParts, place, hourMs), true)
})
