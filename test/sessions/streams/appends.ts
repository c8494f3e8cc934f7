// Appends of one tick: few calls, and each has its own answer, whatever the others get.

import t from 'tap'
import type { Redis } from '../../../src/redis/client.ts'
import { keys } from '../../../src/redis/keys.ts'
import { framesOf, openStreams, said } from '../../fixtures/stream.ts'

async function callsOf(redis: Redis): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1])
}

t.test('40 streams of an account have their frames by 3 calls', async (t) => {
  const { rows, redis, start } = await openStreams(t)
  const messages = await Promise.all(Array.from({ length: 40 }, () => start()))
  const frames = messages.map(({ message }) => framesOf(message, [said('a'), said(message)]))
  const append = (first: number) =>
    Promise.all(
      messages.map((owned, i) =>
        rows.append(owned, { first, count: 1, text: frames[i]?.[first] ?? '' }),
      ),
    )
  await append(0)
  const before = await callsOf(redis)
  const answers = await append(1)
  t.equal((await callsOf(redis)) - before, 3)
  for (const answer of answers) t.same(answer, { word: 'ok', isCancelled: false })
  for (const [i, owned] of messages.entries()) {
    t.equal((await rows.frames(owned, 0))?.text, frames[i]?.join(''))
  }
})

t.test('a call ends with the append that makes it 256 KiB, snapshots included', async (t) => {
  const { rows, redis, start } = await openStreams(t)
  const messages = await Promise.all(Array.from({ length: 8 }, () => start()))
  const append = (first: number, count: number, more: { text: string; said?: string }) =>
    Promise.all(messages.map((owned) => rows.append(owned, { first, count, ...more })))
  await append(0, 1, { text: 'x' })
  for (const more of [
    { text: 'x'.repeat(128 * 1024) },
    { text: 'x', said: 'y'.repeat(128 * 1024) },
  ]) {
    const before = await callsOf(redis)
    const first = more.said === undefined ? 1 : 2
    for (const answer of await append(first, 1, more)) t.match(answer, { word: 'ok' })
    t.equal((await callsOf(redis)) - before, 4)
  }
  for (const owned of messages) t.match(await rows.words(owned), { next: 3, saidNext: 3 })
})

t.test('each is answered by itself, also of other accounts', async (t) => {
  const it = await openStreams(t)
  const other = await openStreams(t, { server: it.server })
  const { rows, redis, ref } = it
  const [good, cancelled, behind, stranger, forgotten] = await Promise.all([
    it.start(),
    it.start(),
    it.start(),
    it.start(),
    it.start(),
  ])
  const elsewhere = await other.start()
  await rows.cancel(cancelled)
  await redis.del(keys.stream(ref, forgotten.message), keys.session(ref, forgotten.session))
  const one = { first: 0, count: 1, text: 'x' }
  const [a = '', b = ''] = framesOf(good.message, [said('a'), said('b')])
  const answers = await Promise.all([
    rows.append(behind, { ...one, first: 7 }),
    rows.append(good, { ...one, text: a }),
    rows.append({ ...stranger, hold: 'another' }, one),
    rows.append(elsewhere, one),
    rows.append(forgotten, one),
    rows.append(cancelled, one),
    rows.append(good, { first: 1, count: 1, text: b }),
  ])
  t.same(answers, [
    { word: 'behind', next: 0 },
    { word: 'ok', isCancelled: false },
    { word: 'lost' },
    { word: 'ok', isCancelled: false },
    { word: 'forgotten' },
    { word: 'ok', isCancelled: true },
    { word: 'ok', isCancelled: false },
  ])
  t.equal((await rows.frames(good, 0))?.text, a + b)
})

t.test('one that fails, because its key is broken, fails alone', async (t) => {
  const { rows, redis, ref, start } = await openStreams(t)
  const [first, broken, last] = await Promise.all([start(), start(), start()])
  await redis.set(keys.frames(ref, broken.message), 'no stream')
  const frame = (message: string) => framesOf(message, [said('a')]).join('')
  const append = (owned: typeof first) =>
    rows.append(owned, { first: 0, count: 1, text: frame(owned.message) })
  const answers = await Promise.allSettled([first, broken, last].map(append))
  t.match(answers, [
    { value: { word: 'ok' } },
    { reason: { code: 'ledger_unavailable' } },
    { value: { word: 'ok' } },
  ])
  for (const owned of [first, last]) {
    t.equal((await rows.frames(owned, 0))?.text, frame(owned.message))
  }
})
