import t from 'tap'
import type { Test } from 'tap'
import type { Redis } from '../../src/redis/client.ts'
import { keys } from '../../src/redis/keys.ts'
import { SessionBook } from '../../src/sessions/sessions.ts'
import { openSessions } from '../fixtures/sessions.ts'
import { until } from '../fixtures/until.ts'

const countedBy = async (redis: Redis, ref: string) =>
  Number(await redis.hget(keys.storage(ref), 'sessions'))

/** Three sessions, one of which Redis has expired without a notice. */
async function expire(t: Test) {
  const opened = await openSessions(t, { retentionMs: 3_600_000 })
  const { book, ref, redis } = opened
  const ids: string[] = []
  for (let i = 0; i < 3; i++) ids.push((await book.create(ref, { title: `${i}` })).id)
  const counted = await countedBy(redis, ref)
  const [gone = ''] = ids
  await redis.pexpire(keys.session(ref, gone), 1)
  await until(async () => (await redis.exists(keys.session(ref, gone))) === 0)
  return { ...opened, ids, gone, counted }
}

t.test('the bytes of an expired session are given back, once', async (t) => {
  const { room, ref, redis, ids, gone, counted } = await expire(t)
  t.equal(await countedBy(redis, ref), counted, 'nobody was told')
  t.equal(await room.forgetExpired(ref, ids), 1)
  t.equal(await countedBy(redis, ref), (counted / 3) * 2)
  t.strictSame(await redis.zrange(keys.sessions(ref), '0', '-1'), ids.slice(1))
  t.equal(await redis.hexists(keys.storage(ref), gone), 0)
  await room.forgetExpired(ref, ids)
  t.equal(await countedBy(redis, ref), (counted / 3) * 2)
})

t.test('a list that finds an expired session gives its bytes back', async (t) => {
  const { book, ref, redis, counted } = await expire(t)
  t.equal((await book.list(ref, { limit: 20, order: 'desc' })).data.length, 2)
  t.equal(await countedBy(redis, ref), (counted / 3) * 2)
})

t.test('before a session is refused for want of room, expired ones are looked for', async (t) => {
  const { book, ref, counted } = await expire(t)
  await book.create(ref, {}, { quotaBytes: counted })
  await t.rejects(book.create(ref, {}, { quotaBytes: counted }), { code: 'storage_quota_exceeded' })
})

t.test('when no session has expired, the refused call is not repeated', async (t) => {
  const { room, ref } = await openSessions(t)
  let asked = 0
  const refused = await room.within(ref, async () => {
    asked++
    return { word: 'storage_quota_exceeded' }
  })
  t.match([asked, refused.word], [1, 'storage_quota_exceeded'])
})

t.test(
  'the bytes of a session that no longer expires are given back when it is deleted',
  async (t) => {
    const { book, options, room, ref, redis, ids } = await expire(t)
    const [, other = ''] = ids
    const forever = new SessionBook({ ...options, retentionMs: 0 })
    await forever.patch(ref, other, { title: 'x' })
    t.equal(await redis.hexists(keys.storage(ref), other), 0, 'it does not expire any more')
    for (const id of ids.slice(1)) await book.remove(ref, id)
    await room.forgetExpired(ref, ids)
    t.equal(await redis.exists(keys.storage(ref)), 0, 'nothing is left')
  },
)
