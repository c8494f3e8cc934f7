// A message whose owner is gone is ended by whoever finds it: with its words, and their cost.

import { mock } from 'node:test'
import t from 'tap'
import type { Test } from 'tap'
import { newId } from '../../../src/ids.ts'
import { hourOfHold } from '../../../src/ledger/hold-rows.ts'
import { keys } from '../../../src/redis/keys.ts'
import { Lost } from '../../../src/sessions/streams/lost.ts'
import { framesOf, openStreams, said } from '../../fixtures/stream.ts'
import type { Setup } from '../../fixtures/stream.ts'

async function open(t: Test, setup: Setup = {}) {
  const opened = await openStreams(t, setup)
  const { redis, rows, holds, start, silence } = opened
  const lost = new Lost({ redis, rows, holds })
  /** Silent, with `words` as frames of their own. */
  const startGone = async (words: readonly string[] = []) => {
    const owned = await start()
    const frames = framesOf(owned.message, words.map(said))
    for (const [first, text] of frames.entries()) {
      await rows.append(owned, { first, count: 1, text })
    }
    await silence(owned)
    return owned
  }
  return { ...opened, lost, startGone }
}

t.test('it ends incomplete, with the words of its frames and its last checkpoint', async (t) => {
  const { lost, startGone, row, redis, ref, rows } = await open(t)
  const owned = await startGone(['Grü', 'ße', '\n\nid: '])
  await redis.hset(keys.holdRows(ref), owned.hold, '400 25 7 3 18 hash key m 0000000000001')
  t.equal(await lost.finish(owned), true)
  t.match(await row(owned), {
    status: 'incomplete',
    content: 'Grüße\n\nid: ',
    cost: 25,
    usage: { prompt_tokens: 7, completion_tokens: 18, total_tokens: 25, estimated: true },
    error: { code: 'upstream_incomplete' },
    finish_reason: null,
    hold: undefined,
  })
  const { text = '', next, isEnd } = (await rows.frames(owned, 3)) ?? {}
  t.match({ next, isEnd }, { next: 4, isEnd: true })
  const data = /^id: msg_\w+:3\ndata: (.*)\n\n$/.exec(text)?.[1] ?? ''
  const code = 'upstream_incomplete'
  t.match(JSON.parse(data), { error: { code }, request_id: `req_${owned.hold}` })
  t.equal(await lost.finish(owned), true, 'once more')
})

t.test('a settlement that was made before is its cost, reaped or by its owner', async (t) => {
  const { lost, startGone, row, redis, ref } = await open(t)
  const marks = [
    ['r 30 10 0 20', 30, { prompt_tokens: 10, completion_tokens: 20 }],
    ['s 31 5', 31, null],
  ] as const
  for (const [mark, cost, usage] of marks) {
    const owned = await startGone(['a'])
    await redis.hdel(keys.holdRows(ref), owned.hold)
    await redis.hset(keys.settled(ref, hourOfHold(owned.hold)), owned.hold, mark)
    await lost.finish(owned)
    t.match(await row(owned), { cost, usage }, mark)
  }
  const owned = await startGone()
  await redis.hdel(keys.holdRows(ref), owned.hold)
  await lost.finish(owned)
  t.match(await row(owned), { cost: 0, usage: null, content: null }, 'nothing is known')
})

t.test('if the frames are gone, the words are still those that were generated', async (t) => {
  const { lost, start, silence, rows, row } = await open(t)
  const owned = await start()
  const frames = framesOf(owned.message, ['a', 'b', 'c'].map(said))
  const snapshot = JSON.stringify({ content: 'a b ', calls: [], open: [] })
  const anew = { first: 1, count: 1, text: frames[1] ?? '', said: snapshot, replaces: true }
  await rows.append(owned, anew)
  await rows.append(owned, { first: 2, count: 1, text: frames[2] ?? '' })
  t.equal((await lost.said(owned)).result().content, 'a b c')
  await silence(owned)
  await lost.finish(owned)
  t.match(await row(owned), { content: 'a b c', status: 'incomplete' })
})

t.test(
  'who looks at an unfinished message a hundred times has one copy of it in memory',
  async (t) => {
    const { lost, rows, startGone } = await open(t)
    const owned = await startGone(['a', 'b'])
    let [reading, most] = [0, 0]
    const read = rows.frames.bind(rows)
    t.intercept(rows, 'frames', {
      value: async (...words: Parameters<typeof read>) => {
        most = Math.max(most, ++reading)
        return await read(...words).finally(() => reading--)
      },
    })
    const looks = await Promise.all(Array.from({ length: 100 }, () => lost.said(owned)))
    t.same(new Set(looks.map((look) => look.result().content)), new Set(['ab']))
    t.equal(most, 1)
  },
)

t.test('an owner that lives, or was heard of recently, is left alone', async (t) => {
  const { lost, start, startGone, rows, redis, ref, row, lease } = await open(t)
  const owned = await startGone(['a'])
  await lease(owned.hold, Date.now() + 60_000)
  t.equal(await lost.finish(owned), false)
  const fresh = await start()
  await redis.hdel(keys.holdRows(ref), fresh.hold)
  await redis.hset(keys.stream(ref, fresh.message), 'touched', Date.now() + 60_000)
  t.equal(await lost.finish(fresh), false)
  t.match(await row(owned), { status: 'in_progress' })
  t.equal((await rows.state(fresh))?.isEnded, false)
})

t.test('a clock that is behind does not delay the end', async (t) => {
  const { lost, startGone, row, lease } = await open(t)
  const owned = await startGone()
  await lease(owned.hold, Date.now() - 2000)
  mock.timers.enable({ apis: ['Date'], now: Date.now() - 3_600_000 })
  t.teardown(() => mock.timers.reset())
  t.equal(await lost.finish(owned), true)
  t.match(await row(owned), { status: 'incomplete' })
})

t.test('when many find it at once, it has one terminal', async (t) => {
  const { lost, startGone, redis, ref, rows } = await open(t)
  const owned = await startGone(['a'])
  const all = await Promise.all(Array.from({ length: 8 }, () => lost.finish(owned)))
  t.ok(all.every(Boolean))
  t.equal(await redis.xlen(keys.frames(ref, owned.message)), 2)
  t.match(await rows.state(owned), { next: 2, isLost: true })
})

t.test('a message that has ended, or does not exist, gets no end', async (t) => {
  const { lost, start, rows, row, ref, redis } = await open(t)
  const owned = await start()
  const { message } = owned
  const completed = JSON.stringify({ ...(await row(owned)), status: 'completed' })
  await rows.finish(owned, { first: 0, count: 1, text: 'x' }, completed)
  t.equal(await lost.finish(owned), true)
  await redis.del(keys.stream(ref, message), keys.frames(ref, message))
  t.equal(await lost.finish(owned), true)
  t.match(await row(owned), { status: 'completed' })
  t.equal(await redis.exists(keys.stream(ref, message)), 0)
  t.equal(await lost.finish({ ...owned, message: newId('msg') }), true)
})

t.test('one that is withdrawn while it is looked at does not come back', async (t) => {
  const { startGone, redis, ref, row, rows } = await open(t)
  const owned = await startGone()
  const seen = JSON.stringify({ ...(await row(owned)), status: 'incomplete' })
  await rows.withdraw(owned, { ids: [owned.message] })
  t.equal(await rows.finishLost(owned, { reached: 0, terminal: '{}', row: seen }), true)
  t.equal(await redis.hexists(keys.messages(ref, owned.session), owned.message), 0)
  t.equal(await redis.zscore(keys.messageIds(ref, owned.session), owned.message), null)
  t.equal(await redis.exists(keys.stream(ref, owned.message), keys.frames(ref, owned.message)), 0)
})

t.test('a message whose stream Redis forgot is finished all the same', async (t) => {
  const { lost, startGone, redis, ref, row } = await open(t)
  const owned = await startGone(['a'])
  await redis.del(keys.stream(ref, owned.message), keys.frames(ref, owned.message))
  t.equal(await lost.finish(owned), true)
  t.match(await row(owned), { status: 'incomplete', content: null })
  t.equal(await redis.hget(keys.session(ref, owned.session), 'active'), null)
})

t.test('the stream of a deleted session ends, and nothing of the session comes back', async (t) => {
  const { lost, startGone, redis, ref, rows } = await open(t)
  const owned = await startGone(['a'])
  const { session } = owned
  await redis.del(keys.session(ref, session), keys.messages(ref, session))
  await redis.del(keys.messageIds(ref, session))
  t.equal(await lost.finish(owned), true)
  t.match(await rows.state(owned), { isEnded: true, isLost: true })
  t.same(await redis.keys(`*${session}*`), [])
})
