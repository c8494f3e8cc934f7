import t from 'tap'
import { createAccounts } from '../../src/accounts/accounts.ts'
import { withKeyRoom } from '../../src/accounts/key-room.ts'
import { keys } from '../../src/redis/keys.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

t.test('keys that are dead for a day make room, others do not', async (t) => {
  const { client: redis } = await connectLink(t, (await startRedis(t)).socket)
  const accounts = createAccounts(redis, { plugins: new Map() })
  const { ref } = await accounts.createAccount({ name: 'a' })
  const make = () => withKeyRoom(accounts, ref, () => accounts.createKey(ref, {}, undefined, 3))
  const [old, young, good] = [await make(), await make(), await make()]
  const full = { code: 'key_limit_reached' }
  await t.rejects(make(), full)
  await accounts.revokeKey(old.id)
  await accounts.revokeKey(young.id)
  await t.rejects(make(), full, 'both are dead for less than a day')
  const hmac = (await redis.hget(keys.keyList(ref), old.id)) ?? ''
  await redis.hset(keys.key(ref, hmac), 'revoked_at', Math.floor(Date.now() / 1000) - 86_401)
  const made = await make()
  t.strictSame(
    (await accounts.listKeys(ref)).map(({ id }) => id),
    [young.id, good.id, made.id],
  )
  t.equal(await redis.exists(keys.key(ref, hmac)), 0)
  await t.rejects(accounts.getKeyRef(old.id), { code: 'key_not_found' })
  await t.rejects(accounts.setKey(old.id, { name: 'x' }), { code: 'key_not_found' })
  await t.rejects(make(), full)
})

t.test('with a key goes what the row of its account has for it', async (t) => {
  const { client: redis } = await connectLink(t, (await startRedis(t)).socket)
  const accounts = createAccounts(redis, { plugins: new Map() })
  const { ref } = await accounts.createAccount({ name: 'a' })
  const row = keys.account(ref)
  const make = () =>
    withKeyRoom(accounts, ref, () =>
      accounts.createKey(ref, { budget: { tokens: 5, every: 'day' } }, undefined, 3),
    )
  const die = async (id: string) => {
    const hmac = (await redis.hget(keys.keyList(ref), id)) ?? ''
    await redis.hset(keys.key(ref, hmac), 'revoked_at', Math.floor(Date.now() / 1000) - 86_401)
  }
  const [first, busy] = [await make(), await make()]
  const next = await accounts.rotateKey(first.id, 0, undefined, 3)
  const fields = {
    window: 'month 1 2 3',
    [`window:${first.id}:day`]: 'day 1 2 3',
    [`window:${first.id}:month`]: 'month 1 2 3',
    [`window:${busy.id}:week`]: 'week 1 2 3',
    [`open:${first.id}`]: '0',
    [`open:${busy.id}`]: '1',
    [`open:${next.id}`]: '0',
  }
  await redis.hset(row, fields)
  const left = async () =>
    Object.keys(await redis.hgetall(row))
      .filter((name) => /^(window|open)/.test(name))
      .toSorted()
  await die(first.id)
  await die(busy.id)
  const made = [await make(), await make()]
  t.strictSame(
    await left(),
    [
      `open:${busy.id}`,
      `open:${next.id}`,
      'window',
      `window:${first.id}:day`,
      `window:${first.id}:month`,
    ].toSorted(),
    'a request of one key still runs, and another key counts with the first one',
  )
  for (const { id } of [next, ...made]) await die(id)
  await make()
  t.strictSame(await left(), [`open:${busy.id}`, 'window'])
})
