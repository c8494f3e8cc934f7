// Sessions wake as they fell asleep, whoever wakes them, however often, and whatever is cut.

import t from 'tap'
import type { Test } from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import { keys } from '../../../src/redis/keys.ts'
import { Waking } from '../../../src/sessions/asleep/waking.ts'
import { pathOf } from '../../../src/sessions/asleep/object.ts'
import { putToSleep } from '../../../src/sessions/asleep/sleeping.ts'
import { MessageBook } from '../../../src/sessions/messages.ts'
import type { SessionScripts } from '../../../src/sessions/library.ts'
import { age, hooked, storedIn } from '../../fixtures/asleep.ts'
import { addMessage, addMessages, openSessions } from '../../fixtures/sessions.ts'

const hourMs = 3_600_000
const all = { limit: 100, order: 'asc' } as const

/** A session with messages that sleeps. */
async function start(t: Test, { count = 3, retentionMs = 0, content = 'Hello' } = {}) {
  const it = await openSessions(t, { retentionMs })
  const { book, ref, redis, asleepParts } = it
  const { id: session } = await book.create(ref, { title: 'T' })
  const place = { ref, session }
  await addMessages(redis, place, { count, content })
  await age(redis, place)
  const rows = await storedIn(it.redis, place)
  const ttl = await redis.pttl(keys.session(ref, session))
  t.ok(await putToSleep(asleepParts, place))
  const object = (await redis.hget(keys.session(ref, session), 'asleep')) ?? ''
  return { ...it, place, session, rows, object, ttl }
}

t.test('reading wakes a session, which then is as it was', async (t) => {
  const it = await start(t, { count: 30 })
  const { messages, place, session, rows, redis, ref, book, metrics } = it
  const list = await messages.list(place, { limit: 20, order: 'asc' })
  t.match(list, { data: { length: 20 }, first_id: rows.ids[0], has_more: true })
  t.strictSame(await storedIn(it.redis, place), rows, 'byte for byte')
  t.notOk(await redis.hget(keys.session(ref, session), 'asleep'))
  t.match(await book.read(ref, session), { updated_at: 1, message_count: 30, title: 'T' })
  t.equal((await metrics.sessionsWoken.get()).values[0]?.value, 1)
})

t.test('so does reading one message, and asking whether there is one', async (t) => {
  for (const what of ['read', 'check'] as const) {
    const { messages, place, rows, redis } = await start(t)
    const [, message = ''] = rows.ids
    const found: unknown = await messages[what]({ ...place, message })
    if (what === 'read') t.match(found, { content: 'Hello 1' })
    t.strictSame(await storedIn(redis, place), rows)
    const malformed = async () => void (await messages[what]({ ...place, message: 'msg_' }))
    await t.rejects(malformed(), { code: 'message_not_found' })
  }
})

t.test('the title can be changed, and all but the messages read, without waking', async (t) => {
  const { book, ref, session, redis, object } = await start(t)
  t.match(await book.patch(ref, session, { title: 'new' }), { title: 'new', message_count: 3 })
  t.match(await book.list(ref, all), { data: [{ id: session, message_count: 3 }] })
  t.match(await book.read(ref, session), { title: 'new' })
  t.equal(await redis.hget(keys.session(ref, session), 'asleep'), object)
})

t.test('those who wait for one session share one read of the store', async (t) => {
  const it = await start(t, { count: 10 })
  const { asleepParts, store, place, object, rows, redis } = it
  let reads = 0
  const counted = {
    get: async (name: string) => {
      reads++
      return store.get(name)
    },
  }
  const waking = new Waking({ ...asleepParts, store: counted })
  await Promise.all(Array.from({ length: 20 }, () => waking.wake(place, object)))
  t.equal(reads, 1)
  t.strictSame(await storedIn(redis, place), rows)
})

t.test('two gateways that wake one session do each other no harm', async (t) => {
  const it = await start(t, { count: 1200 })
  const { asleepParts, place, object, rows } = it
  const wakers = Array.from({ length: 4 }, () => new Waking(asleepParts))
  await Promise.all(wakers.map((waking) => waking.wake(place, object)))
  t.strictSame(await storedIn(it.redis, place), rows)
})

t.test('a gateway that is slower than another writes nothing late', async (t) => {
  const it = await start(t, { count: 1200 })
  const { asleepParts, place, object, ref, session, redis, waking } = it
  let at = 0
  const scripts = hooked(it.scripts, 'wake', async () => {
    if (at++ !== 1) return
    await waking.wake(place, object)
    await redis.unlink(keys.messageIds(ref, session), keys.messages(ref, session))
  })
  await new Waking({ ...asleepParts, scripts }).wake(place, object)
  t.strictSame(await storedIn(it.redis, place), { ids: [], rows: {} })
})

t.test(
  'a gateway that dies in the middle leaves a session that sleeps, and is woken',
  async (t) => {
    const it = await start(t, { count: 1200 })
    const { asleepParts, place, object, messages, rows, redis, ref, session } = it
    let at = 0
    const scripts = hooked(it.scripts, 'wake', () => {
      if (at++ === 1) throw new GatewayError('ledger_unavailable')
    })
    const dying = new Waking({ ...asleepParts, scripts })
    await t.rejects(dying.wake(place, object), { code: 'ledger_unavailable' })
    const some = await redis.zcard(keys.messageIds(ref, session))
    t.ok(some > 0 && some < 1200, `${some} are there`)
    t.match(await messages.list(place, { limit: 100, order: 'desc' }), { last_id: rows.ids[1100] })
    t.strictSame(await storedIn(it.redis, place), rows)
  },
)

t.test('no part of a session is shown while it wakes', async (t) => {
  const it = await start(t, { count: 1200 })
  const { asleepParts, place, object, messages, rows } = it
  const seen: unknown[] = []
  let isIn = false
  const scripts = hooked(it.scripts, 'wake', async () => {
    if (isIn) return
    isIn = true
    const last = { ...place, message: rows.ids.at(-1) ?? '' }
    const [list, one] = await Promise.all([
      messages.list(place, { limit: 2, order: 'desc' }),
      messages.read(last),
    ])
    seen.push(list.first_id, one.id)
  })
  await new Waking({ ...asleepParts, scripts }).wake(place, object)
  t.strictSame(seen, [rows.ids.at(-1), rows.ids.at(-1)])
})

t.test('a session that is deleted while it wakes stays deleted', async (t) => {
  const it = await start(t, { count: 1200 })
  const { asleepParts, place, object, book, redis, ref, session } = it
  let at = 0
  const scripts = hooked(it.scripts, 'wake', async () => {
    if (at++ === 1) await book.remove(ref, session)
  })
  const messages = new MessageBook({ ...it, waking: new Waking({ ...asleepParts, scripts }) })
  await t.rejects(messages.list(place, all), { code: 'session_not_found' })
  const left = await redis.keys(`{${ref}}:session:*`)
  t.strictSame(left, [])
  t.strictSame(
    await redis.zrange(keys.sessionObjects(ref), '0', '-1'),
    [object],
    'the object is found',
  )
})

t.test('messages that Redis loses while they are written are written again', async (t) => {
  const it = await start(t, { count: 1200 })
  const { asleepParts, place, object, redis, ref, session, rows } = it
  let at = 0
  const scripts = hooked(it.scripts, 'wake', async () => {
    if (at++ === 1) await redis.unlink(keys.messageIds(ref, session), keys.messages(ref, session))
  })
  await new Waking({ ...asleepParts, scripts }).wake(place, object)
  t.strictSame(await storedIn(it.redis, place), rows)
})

t.test('messages expire with their session, however they came back', async (t) => {
  const it = await start(t, { count: 1200, retentionMs: 10 * hourMs })
  const { messages, place, redis, ref, session, ttl } = it
  t.ok(ttl > 0)
  await messages.list(place, all)
  for (const key of [keys.messageIds(ref, session), keys.messages(ref, session)]) {
    const left = await redis.pttl(key)
    t.ok(left > 0 && left <= ttl, `${key}: ${left}`)
  }
})

t.test('Redis never gets more than a bounded piece at a time', async (t) => {
  const it = await start(t, { count: 300, content: 'x'.repeat(5000) })
  const { asleepParts, place, object, rows, scripts } = it
  const sizes: number[] = []
  const run: SessionScripts['run'] = async (name, names, words) => {
    if (name === 'wake') sizes.push(words.join('').length)
    return scripts.run(name, names, words)
  }
  await new Waking({ ...asleepParts, scripts: { ...scripts, run } }).wake(place, object)
  t.ok(sizes.length >= 6 && Math.max(...sizes) < 300_000, sizes.join())
  t.strictSame(await storedIn(it.redis, place), rows)
})

t.test('while the store is away, only the messages of sleeping sessions are', async (t) => {
  const it = await start(t)
  const { asleepParts, place, book, redis, ref, session, object } = it
  const away = async () => {
    throw new GatewayError('storage_unavailable')
  }
  const waking = new Waking({ ...asleepParts, store: { get: away } })
  const messages = new MessageBook({ ...it, waking })
  await t.rejects(messages.list(place, all), { code: 'storage_unavailable', status: 503 })
  const { id: other } = await book.create(ref, {})
  await addMessage(redis, { ref, session: other })
  t.match(await messages.list({ ref, session: other }, all), { data: { length: 1 } })
  t.equal(await redis.hget(keys.session(ref, session), 'asleep'), object)
  t.match(await it.messages.list(place, all), { data: { length: 3 } }, 'it is back')
})

t.test('lost or broken messages are no empty history, and the operator is told', async (t) => {
  const it = await start(t)
  const { messages, place, store, ref, object, logged, redis, session } = it
  const name = pathOf(ref, object)
  const whole = await store.get(name)
  const cases = [
    [() => store.remove(name), /is not in the store/],
    [() => store.put(name, whole.subarray(0, -3)), /cannot be used/],
  ] as const
  for (const [breakIt, words] of cases) {
    await breakIt()
    const lost = { code: 'internal_error', status: 500, message: /cannot be read from the store/ }
    await t.rejects(messages.list(place, all), lost)
    const message = it.rows.ids[0] ?? ''
    await t.rejects(messages.read({ ...place, message }), lost)
    t.match(logged.at(-1), [{ object: name, session }, words])
    t.equal(await redis.hget(keys.session(ref, session), 'asleep'), object)
  }
  await store.put(name, whole)
  t.match(await messages.list(place, all), { data: { length: 3 } }, 'the operator has a backup')
})

t.test('an object that is gone because its session woke meanwhile is not missed', async (t) => {
  const it = await start(t)
  const { asleepParts, place, object, store, waking, logged } = it
  const late = {
    async get(name: string) {
      await waking.wake(place, object)
      await store.remove(name)
      return store.get(name)
    },
  }
  await new Waking({ ...asleepParts, store: late }).wake(place, object)
  t.strictSame(logged, [])
})

t.test('an account with many sleeping sessions waits for its own', async (t) => {
  const it = await start(t)
  const { asleepParts, store, book, redis, ref } = it
  const sleep = async () => {
    const { id: session } = await book.create(ref, {})
    await addMessage(redis, { ref, session })
    await putToSleep(asleepParts, { ref, session })
    return session
  }
  const sessions = await Promise.all(Array.from({ length: 8 }, sleep))
  let [reading, most] = [0, 0]
  const counted = {
    async get(name: string) {
      most = Math.max(most, ++reading)
      return await store.get(name).finally(() => reading--)
    },
  }
  const waking = new Waking({ ...asleepParts, store: counted })
  const messages = new MessageBook({ ...it, waking })
  const lists = await Promise.all(sessions.map((session) => messages.list({ ref, session }, all)))
  for (const list of lists) t.match(list, { data: { length: 1 } })
  t.equal(most, 1)
})
