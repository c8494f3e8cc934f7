// Objects that no session names any more are removed, a day later, and no others.

import t from 'tap'
import { keys } from '../../../src/redis/keys.ts'
import { Attempts } from '../../../src/sessions/asleep/attempts.ts'
import { removeUnnamed } from '../../../src/sessions/asleep/unnamed.ts'
import { letObjectsAge } from '../../fixtures/asleep.ts'
import { dayMs, openOld } from '../../fixtures/old-sessions.ts'
import { until } from '../../fixtures/until.ts'

const all = { limit: 100, order: 'asc' } as const

t.test('an object goes a day after its session woke or was deleted, and not before', async (t) => {
  const { book, messages, redis, ref, rounds, old, objects } = await openOld(t)
  const [woken, deleted, asleep] = [await old(), await old(), await old()]
  t.match(await rounds.walk(dayMs), { slept: 3 })
  const [, , stays] = await objects()
  await letObjectsAge(redis, ref)
  await messages.list({ ref, session: woken }, all)
  await book.remove(ref, deleted)
  t.match(await rounds.walk(dayMs), { slept: 0, removed: 0 })
  t.equal((await objects()).length, 3)
  for (const score of await redis.zrange(keys.sessionObjects(ref), '0', '-1', 'WITHSCORES')) {
    if (/^\d+$/.test(score)) t.ok(Math.abs(Number(score) - Date.now() - dayMs) < 60_000, score)
  }
  await letObjectsAge(redis, ref)
  t.match(await rounds.walk(dayMs), { removed: 2 })
  t.strictSame(await objects(), [stays])
  await messages.list({ ref, session: asleep }, all)
})

t.test('the object of a session that has expired goes, too', async (t) => {
  const { redis, ref, rounds, old, objects } = await openOld(t, 30 * dayMs)
  const session = await old()
  t.match(await rounds.walk(dayMs), { slept: 1 })
  const ttl = await redis.pttl(keys.session(ref, session))
  t.ok(ttl > 29 * dayMs, 'it sleeps no longer than it was to live')
  await redis.pexpire(keys.session(ref, session), 1)
  await until(async () => (await redis.exists(keys.session(ref, session))) === 0)
  t.match(await rounds.walk(dayMs), { removed: 0 }, 'it is looked for once a day')
  await letObjectsAge(redis, ref)
  t.match(await rounds.walk(dayMs), { removed: 1 })
  t.strictSame(await objects(), [])
  t.equal(await redis.exists(keys.sessionObjects(ref)), 0)
})

t.test(
  'hundreds of objects go in one round, and a round that ends early goes on later',
  async (t) => {
    const { asleepParts, redis, ref, store, objects } = await openOld(t)
    await redis.sadd(keys.sleepers, ref)
    for (let i = 0; i < 250; i++) {
      await redis.zadd(keys.sessionObjects(ref), 1, `sess_${i}.x`)
      await store.put(`sessions/${ref}/sess_${i}.x.ndjson.gz`, Buffer.from('x'))
    }
    const closing = new AbortController()
    const abandon = async (name: string) => {
      closing.abort()
      return store.abandon(name)
    }
    const { signal } = new AbortController()
    const parts = { ...asleepParts, attempts: new Attempts(asleepParts.log), signal }
    const cut = { ...parts, store: { abandon }, signal: closing.signal }
    t.equal(await removeUnnamed(cut), 1, 'it ends with the object that it is at')
    t.equal(await removeUnnamed(parts), 249)
    t.strictSame(await objects(), [])
  },
)
