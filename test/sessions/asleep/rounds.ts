// Which sessions fall asleep, which objects go, and what it costs to find them.

import t from 'tap'
import type { Test } from 'tap'
import { newRef } from '../../../src/accounts/api-key.ts'
import { GatewayError } from '../../../src/errors.ts'
import { keys } from '../../../src/redis/keys.ts'
import { Rounds, restMs } from '../../../src/sessions/asleep/rounds.ts'
import type { ObjectStore } from '../../../src/store/store.ts'
import { age, letObjectsAge } from '../../fixtures/asleep.ts'
import { createOld, dayMs, openOld } from '../../fixtures/old-sessions.ts'
import { addMessage } from '../../fixtures/sessions.ts'

const hourMs = 3_600_000
const all = { limit: 100, order: 'asc' } as const

async function start(t: Test) {
  const it = await openOld(t)
  const { redis, ref } = it
  const sleeping = async (session: string, of = ref) =>
    (await redis.hget(keys.session(of, session), 'asleep')) !== null
  return { ...it, sleeping }
}

t.test('sessions fall asleep that have messages and that nobody has used for long', async (t) => {
  const it = await start(t)
  const { book, redis, ref, rounds, old, sleeping, metrics } = it
  const empty = await createOld(it, ref, { agoMs: 10 * dayMs })
  const long = await old(ref, 9 * dayMs)
  const changed = await old(ref, 8 * dayMs)
  await book.patch(ref, changed, { title: 'new' })
  const active = await old(ref, 6 * dayMs)
  await addMessage(redis, { ref, session: active }, { status: 'in_progress' })
  const other = newRef()
  const elsewhere = await old(other, 5 * dayMs)
  const young = await old(ref, dayMs / 2)
  await age(redis, { ref, session: young })
  t.match(await rounds.walk(dayMs), { slept: 2, removed: 0 })
  t.ok(await sleeping(long))
  t.ok(await sleeping(elsewhere, other))
  for (const session of [empty, changed, active, young]) t.notOk(await sleeping(session))
  t.match(await rounds.walk(dayMs), { slept: 0, removed: 0 })
  t.equal((await metrics.sessionsSlept.get()).values[0]?.value, 2)
})

t.test('a session that was woken sleeps again after the same time, and not at once', async (t) => {
  const { messages, redis, ref, rounds, old } = await start(t)
  const session = await old()
  t.match(await rounds.walk(dayMs), { slept: 1 })
  await messages.list({ ref, session }, all)
  t.match(await rounds.walk(dayMs), { slept: 0 })
  await redis.hset(keys.session(ref, session), { woken: Date.now() - 2 * dayMs })
  t.match(await rounds.walk(dayMs), { slept: 1 })
})

t.test('no session falls asleep while the streams of its answers are kept', async (t) => {
  const configOf = (archive_after: number, replay_keep: number) => ({
    plugins: new Map([['sessions', { archive_after, replay_keep }]]),
  })
  t.equal(restMs({ plugins: new Map() }), 0)
  t.equal(restMs(configOf(0, dayMs)), 0)
  t.equal(restMs(configOf(dayMs, hourMs)), dayMs)
  t.equal(restMs(configOf(hourMs, dayMs)), dayMs)
})

t.test('all sessions of an account are looked at, however many sleep already', async (t) => {
  const { rounds, old, sleeping } = await start(t)
  const sessions: string[] = []
  for (let i = 0; i < 250; i++) sessions.push(await old(undefined, 10 * dayMs - i * 1000))
  t.match(await rounds.walk(dayMs), { slept: 250 })
  sessions.push(await old(undefined, 9 * dayMs))
  t.match(await rounds.walk(dayMs), { slept: 1 })
  t.ok(await sleeping(sessions.at(-1) ?? ''))
})

t.test('without archive_after nothing falls asleep, and what is left is removed', async (t) => {
  const { book, redis, ref, rounds, old, objects } = await start(t)
  const session = await old()
  await rounds.walk(dayMs)
  await old()
  await book.remove(ref, session)
  await letObjectsAge(redis, ref)
  t.match(await rounds.walk(0), { slept: 0, removed: 1 })
  t.strictSame(await objects(), [])
})

t.test('while the store is away nothing is lost, and few are tried', async (t) => {
  const { asleepParts, store, rounds, old, logged, objects } = await start(t)
  for (let i = 0; i < 30; i++) await old(undefined, 2 * dayMs - i * 1000)
  let tries = 0
  const put = async () => {
    tries++
    throw new GatewayError('storage_unavailable')
  }
  const away = new Rounds({ ...asleepParts, store: { ...store, put } })
  await t.rejects(away.walk(dayMs), { code: 'storage_unavailable' })
  t.ok(tries >= 8 && tries <= 10, `${tries} tries`)
  t.ok(logged.length < 10)
  t.match(await rounds.walk(dayMs), { slept: 30 }, 'it is back')
  t.equal((await objects()).length, 30)
})

t.test('what cannot be moved does not keep others from it', async (t) => {
  const { asleepParts, book, redis, ref, store, old, logged } = await start(t)
  const bad = await old()
  await old()
  const broken: ObjectStore = {
    ...store,
    async put(name, ...rest) {
      if (name.includes(bad)) throw new GatewayError('storage_unavailable')
      return store.put(name, ...rest)
    },
    async abandon(name) {
      if (name.includes(bad)) throw new GatewayError('storage_unavailable')
      return store.abandon(name)
    },
  }
  const rounds = new Rounds({ ...asleepParts, store: broken })
  const good = await old()
  t.match(await rounds.walk(dayMs), { slept: 2 })
  t.match(logged, [[{ what: bad }]])
  await book.remove(ref, good)
  await letObjectsAge(redis, ref)
  t.match(await rounds.walk(dayMs), { removed: 1 }, 'the record of the bad one is still there')
})

t.test('of several gateways one makes the round', async (t) => {
  const { asleepParts, redis, rounds, old } = await start(t)
  await old()
  const other = new Rounds(asleepParts)
  const both = await Promise.all([rounds.run(dayMs), other.run(dayMs)])
  t.strictSame(both.map(({ slept }) => slept).toSorted(), [0, 1])
  const ttl = await redis.pttl(keys.sleepWalk)
  t.ok(ttl > 0 && ttl < hourMs, 'the next one is due in an hour')
})

t.test('several gateways that make a round at a time move each session once', async (t) => {
  const { asleepParts, rounds, old, objects, messages, ref } = await start(t)
  const sessions: string[] = []
  for (let i = 0; i < 40; i++) sessions.push(await old(undefined, 3 * dayMs - i * 1000))
  const others = [1, 2].map(() => new Rounds(asleepParts))
  const walks = await Promise.all([rounds, ...others].map((one) => one.walk(dayMs)))
  t.equal(
    walks.reduce((sum, { slept }) => sum + slept, 0),
    40,
  )
  t.equal((await objects()).length, 40, 'and leave one object of each')
  for (const session of sessions)
    t.match(await messages.list({ ref, session }, all), { data: { length: 1 } })
})

t.test('a gateway that closes ends its round soon, and the next goes on', async (t) => {
  const { asleepParts, store, old, rounds } = await start(t)
  for (let i = 0; i < 20; i++) await old(undefined, 3 * dayMs - i * 1000)
  let closed: Promise<void> | undefined
  const closing: Rounds = new Rounds({
    ...asleepParts,
    store: {
      ...store,
      async put(...call) {
        closed ??= closing.close()
        return store.put(...call)
      },
    },
  })
  const { slept } = await closing.walk(dayMs)
  await closed
  t.ok(slept >= 1 && slept <= 2, `${slept}`)
  t.match(await rounds.walk(dayMs), { slept: 20 - slept })
})

t.test('an account without old sessions costs one command', async (t) => {
  const { redis, rounds, old } = await start(t)
  for (let i = 0; i < 500; i++) await old(newRef(), 1000)
  const calls = async () => {
    const text = await redis.info('commandstats')
    const found = [...text.matchAll(/cmdstat_(\w+):calls=(\d+)/g)]
    return new Map(found.map(([, name = '', count]) => [name, Number(count)]))
  }
  const before = await calls()
  await rounds.walk(dayMs)
  const after = await calls()
  const more = [...after].map(([name, count]) => [name, count - (before.get(name) ?? 0)] as const)
  const sum = more.filter(([name]) => name !== 'info').reduce((all, [, count]) => all + count, 0)
  t.ok(sum <= 520, JSON.stringify(more.filter(([, count]) => count > 0)))
})
