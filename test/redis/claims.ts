import t from 'tap'
import type { Test } from 'tap'
import { claimLeaseMs, claimOf, createClaims } from '../../src/redis/claims.ts'
import type { ClaimState, Try } from '../../src/redis/claims.ts'
import type { Claim } from '../../src/redis/claims.ts'
import { newId } from '../../src/ids.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const first: Try = {
  id: 'req_1',
  ref: 'AAAAAAAAAAAA',
  method: 'POST',
  path: '/api/chat/sessions',
  key: 'one',
  body: Buffer.from('{}'),
}
const second = { ...first, id: 'req_2' }

async function start(t: Test) {
  const link = await connectLink(t, (await startRedis(t)).socket)
  return { link, redis: link.client, attemptOf: createClaims({ link }) }
}

function taken(found: ClaimState): Claim {
  if (found.is !== 'taken') throw new Error(found.is)
  return found.claim
}

t.test('of 50 tries one takes the key, for 10 s; the others see it running', async (t) => {
  const { redis, attemptOf } = await start(t)
  const tries = Array.from({ length: 50 }, (_, i) => attemptOf({ ...first, id: `req_${i}` }).take())
  const found = await Promise.all(tries)
  const mine = found.filter(({ is }) => is === 'taken')
  t.equal(mine.length, 1)
  t.equal(found.filter(({ is }) => is === 'running').length, 49)
  const { key, running } = taken(mine[0] ?? { is: 'free' }).words('')
  t.equal(await redis.get(key), running)
  const leftMs = await redis.pttl(key)
  t.ok(leftMs > 0 && leftMs <= claimLeaseMs)
})

t.test('what is kept is found by repetitions, whatever try keeps it', async (t) => {
  const { redis, attemptOf } = await start(t)
  const claim = taken(await attemptOf(first).take())
  await redis.set(claim.words('').key, claim.words('msg_1 msg_0').kept)
  t.strictSame(await attemptOf(second).take(), { is: 'pointing', pointer: 'msg_1 msg_0' })
  t.strictSame(await attemptOf(second).look(), { is: 'pointing', pointer: 'msg_1 msg_0' })
})

t.test('what a created session leaves for a day is less than 200 bytes', async (t) => {
  const { redis, attemptOf } = await start(t)
  const claim = taken(await attemptOf({ ...first, key: 'k'.repeat(255) }).take())
  await redis.set(claim.words('').key, claim.words(newId('sess')).kept, 'EX', 86_400)
  const bytes = await redis.memory('USAGE', claim.words('').key)
  t.ok(Number(bytes) <= 200, `${bytes}`)
})

t.test('another body under the same key is refused, running or kept', async (t) => {
  const { redis, attemptOf } = await start(t)
  const claim = taken(await attemptOf(first).take())
  const other = attemptOf({ ...second, body: Buffer.from('{ }') })
  await t.rejects(other.take(), { code: 'idempotency_key_reused' })
  await redis.set(claim.words('').key, claim.words('msg_1').kept)
  await t.rejects(other.take(), { code: 'idempotency_key_reused' })
  await t.rejects(other.look(), { code: 'idempotency_key_reused' })
})

t.test('account, method, path and key each make another claim; the mount does not', async (t) => {
  const { attemptOf } = await start(t)
  await attemptOf(first).take()
  for (const other of [
    { ref: 'BBBBBBBBBBBB' },
    { method: 'PATCH' },
    { path: '/api/chat/other' },
    { path: '/v1/chat/sessions' },
    { key: 'two' },
  ]) {
    t.match(await attemptOf({ ...second, ...other }).take(), { is: 'taken' }, JSON.stringify(other))
  }
  const mounted = attemptOf({ ...second, path: '/v1/api/chat/sessions' })
  t.match(await mounted.take(), { is: 'running' })
})

t.test('a look takes nothing', async (t) => {
  const { redis, attemptOf } = await start(t)
  t.match(await attemptOf(first).look(), { is: 'free' })
  t.equal(await redis.dbsize(), 0)
})

t.test('a try lets go of its own claim alone', async (t) => {
  const { redis, attemptOf } = await start(t)
  const [one, two] = [attemptOf(first), attemptOf(second)]
  const lost = taken(await one.take())
  t.match(await two.take(), { is: 'running' })
  await lost.release()
  t.equal(await redis.dbsize(), 0)
  const { key } = taken(await one.take()).words('')
  await redis.pexpire(key, 1)
  await until(async () => (await redis.exists(key)) === 0)
  const later = taken(await two.take())
  await lost.release()
  t.match(await one.take(), { is: 'running' }, 'not of the one that took it over')
  await redis.set(key, later.words('msg_1').kept)
  await later.release()
  t.match(await two.take(), { is: 'pointing' }, 'nor of what is kept')
})

t.test('a kept claim is not released, a refused one is', async (t) => {
  for (const [word, released] of [
    ['ok', 0],
    ['session_busy', 1],
  ] as const) {
    let count = 0
    const words = (pointer: string) => ({ key: 'k', running: 'r', kept: pointer })
    const claim = claimOf(words, async () => void count++)
    t.same(await claim.keep('msg_1', async (own) => ({ word, own })), {
      word,
      own: { key: 'k', running: 'r', kept: 'msg_1' },
    })
    await claim.release()
    t.equal(count, released, word)
  }
})

t.test('with Redis away every call is ledger_unavailable', async (t) => {
  const { link, attemptOf } = await start(t)
  link.drop()
  const refused = { code: 'ledger_unavailable' }
  await t.rejects(attemptOf(first).take(), refused)
  await t.rejects(attemptOf(first).look(), refused)
})
