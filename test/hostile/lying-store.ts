// What a slow store, a strange object and a session that is about to expire do to those who wake sessions, and to others.

import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { Test } from 'tap'
import { newRef } from '../../src/accounts/api-key.ts'
import { GatewayError } from '../../src/errors.ts'
import { keys } from '../../src/redis/keys.ts'
import { pathOf } from '../../src/sessions/asleep/object.ts'
import { putToSleep } from '../../src/sessions/asleep/sleeping.ts'
import { Waking } from '../../src/sessions/asleep/waking.ts'
import { MessageBook } from '../../src/sessions/messages.ts'
import { storedIn } from '../fixtures/asleep.ts'
import { addMessage, openSessions } from '../fixtures/sessions.ts'

const all = { limit: 100, order: 'asc' } as const

async function start(t: Test, { count = 1, content = 'Hello' } = {}) {
  const it = await openSessions(t)
  const { book, redis, asleepParts, store } = it
  const awake = async (ref = newRef()) => {
    const { id: session } = await book.create(ref, {})
    const place = { ref, session, message: '' }
    for (let i = 0; i < count; i++) place.message = (await addMessage(redis, place, { content })).id
    return place
  }
  const asleep = async (ref = newRef()) => {
    const place = await awake(ref)
    const rows = await storedIn(redis, place)
    t.ok(await putToSleep(asleepParts, place))
    const object = (await redis.hget(keys.session(ref, place.session), 'asleep')) ?? ''
    return { ...place, rows, object, name: pathOf(ref, object) }
  }
  /** The messages as a gateway reads them whose store is this one. */
  const readBy = (get: (typeof store)['get']) =>
    new MessageBook({ ...it, waking: new Waking({ ...asleepParts, store: { get } }) })
  return { ...it, awake, asleep, readBy }
}

t.test('while the store hangs, only those wait whose sessions sleep', async (t) => {
  for (const what of ['list', 'read'] as const) {
    const { book, awake, asleep, readBy } = await start(t)
    const hangs = Promise.withResolvers<never>()
    const messages = readBy(() => hangs.promise)
    const call = (place: Awaited<ReturnType<typeof awake>>): Promise<unknown> =>
      what === 'list' ? messages.list(place, all) : messages.read(place)
    const sleeping = await Promise.all(Array.from({ length: 5 }, () => asleep()))
    let ended = 0
    const waiting = sleeping.map((place) => call(place).finally(() => ended++))
    const place = await awake()
    await call(place)
    await book.list(place.ref, all)
    t.equal(ended, 0)
    const ends = Promise.allSettled(waiting)
    hangs.reject(new GatewayError('storage_unavailable'))
    for (const one of await ends) t.match(one, { reason: { code: 'storage_unavailable' } })
  }
})

t.test('those who waited for a store that is away need not ask it, too', async (t) => {
  const { asleep, awake, readBy, redis, store } = await start(t)
  const sleeping = await Promise.all(Array.from({ length: 10 }, () => asleep()))
  const away = Promise.withResolvers<undefined>()
  let asks = 0
  const messages = readBy(async (name) => {
    asks++
    await away.promise
    return store.get(name)
  })
  const calls = () => sleeping.map((place) => messages.check(place))
  await messages.check(await awake()) // Redis has the script now
  const waiting = Promise.allSettled(calls())
  await redis.ping() // answered after all of them
  away.reject(new GatewayError('storage_unavailable'))
  for (const one of await waiting) t.match(one, { reason: { code: 'storage_unavailable' } })
  t.equal(asks, 2)
  away.promise = Promise.resolve(undefined)
  await t.resolves(Promise.all(calls()), 'it is back')
})

t.test('an object that is not this one as a whole is not taken for it', async (t) => {
  const { asleep, messages, store, redis } = await start(t, { count: 3 })
  const place = await asleep()
  const { name, rows } = place
  const [id = ''] = rows.ids
  const whole = await store.get(name)
  const line = `${JSON.stringify([id, rows.rows[id]])}\n`
  for (const [what, bytes] of Object.entries({
    'another session': await store.get((await asleep(place.ref)).name),
    'fewer messages': gzipSync(line),
    'no messages': gzipSync(''),
  })) {
    await store.put(name, bytes)
    await t.rejects(messages.list(place, all), { code: 'internal_error' }, what)
    t.strictSame(await storedIn(redis, place), { ids: [], rows: {} }, what)
  }
  await store.put(name, whole)
  await messages.list(place, all)
  t.strictSame(await storedIn(redis, place), rows)
})

t.test('nothing of a broken object gets into Redis', async (t) => {
  const { asleep, messages, store, redis } = await start(t, {
    count: 12,
    content: 'x'.repeat(60_000),
  })
  const place = await asleep()
  const whole = await store.get(place.name)
  await store.put(place.name, whole.subarray(0, -3))
  await t.rejects(messages.list(place, all), { code: 'internal_error' })
  t.strictSame(await storedIn(redis, place), { ids: [], rows: {} })
})

t.test('messages that come back in the last millisecond of a session go with it', async (t) => {
  const { asleep, redis, waking } = await start(t)
  for (let i = 0; i < 40; i++) {
    const place = await asleep()
    const { ref, session, object } = place
    await redis.pexpire(keys.session(ref, session), 1 + (i % 3))
    await waking.wake(place, object)
    for (const key of [keys.messageIds(ref, session), keys.messages(ref, session)])
      t.not(await redis.pttl(key), -1, 'it does not stay for ever')
  }
})
