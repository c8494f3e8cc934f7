import t from 'tap'
import type { Test } from 'tap'
import { claimLeaseMs, createClaims } from '../src/claims.ts'
import type { Found, Try } from '../src/claims.ts'
import type { Claim } from '../src/exchange.ts'
import { newId } from '../src/ids.ts'
import { connectLink } from './fixtures/ledger.ts'
import { startRedis } from './fixtures/redis-server.ts'
import { until } from './fixtures/until.ts'

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
  return { link, redis: link.client, placeOf: createClaims({ link }) }
}

function taken(found: Found): Claim {
  if (found.is !== 'taken') throw new Error(found.is)
  return found.claim
}

t.test('of 50 tries one takes the key, for 10 s; the others see it running', async (t) => {
  const { redis, placeOf } = await start(t)
  const tries = Array.from({ length: 50 }, (_, i) => placeOf({ ...first, id: `req_${i}` }).take())
  const found = await Promise.all(tries)
  const mine = found.filter(({ is }) => is === 'taken')
  t.equal(mine.length, 1)
  t.equal(found.filter(({ is }) => is === 'running').length, 49)
  const { key, running } = taken(mine[0] ?? { is: 'free' })
  t.equal(await redis.get(key), running)
  const leftMs = await redis.pttl(key)
  t.ok(leftMs > 0 && leftMs <= claimLeaseMs)
})

t.test('what is kept is found by repetitions, whatever try keeps it', async (t) => {
  const { redis, placeOf } = await start(t)
  const claim = taken(await placeOf(first).take())
  await redis.set(claim.key, claim.kept('msg_1 msg_0'))
  t.strictSame(await placeOf(second).take(), { is: 'pointing', pointer: 'msg_1 msg_0' })
  t.strictSame(await placeOf(second).look(), { is: 'pointing', pointer: 'msg_1 msg_0' })
})

t.test('what a created session leaves for a day is less than 200 bytes', async (t) => {
  const { redis, placeOf } = await start(t)
  const claim = taken(await placeOf({ ...first, key: 'k'.repeat(255) }).take())
  await redis.set(claim.key, claim.kept(newId('sess')), 'EX', 86_400)
  const bytes = await redis.memory('USAGE', claim.key)
  t.ok(Number(bytes) <= 200, `${bytes}`)
})

t.test('another body under the same key is refused, running or kept', async (t) => {
  const { redis, placeOf } = await start(t)
  const claim = taken(await placeOf(first).take())
  const other = placeOf({ ...second, body: Buffer.from('{ }') })
  await t.rejects(other.take(), { code: 'idempotency_key_reused' })
  await redis.set(claim.key, claim.kept('msg_1'))
  await t.rejects(other.take(), { code: 'idempotency_key_reused' })
  await t.rejects(other.look(), { code: 'idempotency_key_reused' })
})

t.test(
  'account, method, path and key each make it another claim; the mount does not',
  async (t) => {
    const { placeOf } = await start(t)
    await placeOf(first).take()
    for (const other of [
      { ref: 'BBBBBBBBBBBB' },
      { method: 'PATCH' },
      { path: '/api/chat/other' },
      { path: '/v1/chat/sessions' },
      { key: 'two' },
    ]) {
      t.match(await placeOf({ ...second, ...other }).take(), { is: 'taken' }, JSON.stringify(other))
    }
    const mounted = placeOf({ ...second, path: '/v1/api/chat/sessions' })
    t.match(await mounted.take(), { is: 'running' })
  },
)

t.test('a look takes nothing', async (t) => {
  const { redis, placeOf } = await start(t)
  t.match(await placeOf(first).look(), { is: 'free' })
  t.equal(await redis.dbsize(), 0)
})

t.test('a try lets go of its own claim alone', async (t) => {
  const { redis, placeOf } = await start(t)
  const [one, two] = [placeOf(first), placeOf(second)]
  await one.take()
  await two.release()
  t.match(await two.take(), { is: 'running' }, 'not of a running one')
  await one.release()
  t.equal(await redis.dbsize(), 0)
  const claim = taken(await one.take())
  await redis.pexpire(claim.key, 1)
  await until(async () => (await two.take()).is === 'taken')
  await one.release()
  t.match(await one.take(), { is: 'running' }, 'not of the one that took it over')
  await redis.set(claim.key, claim.kept('msg_1'))
  await two.release()
  t.match(await two.take(), { is: 'pointing' }, 'nor of what is kept')
})

t.test('with Redis away every call is ledger_unavailable', async (t) => {
  const { link, placeOf } = await start(t)
  link.drop()
  const refused = { code: 'ledger_unavailable' }
  await t.rejects(placeOf(first).take(), refused)
  await t.rejects(placeOf(first).look(), refused)
  await t.rejects(placeOf(first).release(), refused)
})
