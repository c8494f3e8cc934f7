import t from 'tap'
import { keyWindow } from '../../src/budget.ts'
import { createAccounts } from '../../src/accounts/accounts.ts'
import { withKeyRoom } from '../../src/accounts/key-room.ts'
import { keys } from '../../src/redis/redis.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

t.test('keys that are dead for a day make room, others do not', async (t) => {
  const { client: redis } = await connectLink(t, (await startRedis(t)).socket)
  const accounts = createAccounts(redis, { plugins: new Map() })
  const { ref } = await accounts.createAccount({ name: 'a' })
  const make = () =>
    withKeyRoom({ redis, ref, listKeys: accounts.listKeys }, () =>
      accounts.createKey(ref, {}, undefined, 3),
    )
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

t.test(
  'a forgotten key leaves nothing in its account, but what a key that replaced it counts',
  async (t) => {
    const { client: redis } = await connectLink(t, (await startRedis(t)).socket)
    const accounts = createAccounts(redis, { plugins: new Map() })
    const { ref } = await accounts.createAccount({ name: 'a' })
    const fields = { budget: { tokens: 9, every: 'day' } } as const
    const make = () =>
      withKeyRoom({ redis, ref, listKeys: accounts.listKeys }, () =>
        accounts.createKey(ref, fields, undefined, 3),
      )
    const [first, other] = [await make(), await make()]
    const next = await accounts.rotateKey(first.id, 0)
    const row = keys.account(ref)
    const all = [first, other, next].map(({ id }) => `open:${id}`)
    const windows = [first, other].map(({ id }) => keyWindow(id, fields.budget))
    for (const field of [...all, ...windows]) await redis.hset(row, field, '0')
    const die = async (id: string) => {
      await accounts.revokeKey(id)
      const hmac = (await redis.hget(keys.keyList(ref), id)) ?? ''
      await redis.hset(keys.key(ref, hmac), 'revoked_at', Math.floor(Date.now() / 1000) - 86_401)
    }
    const left = async () =>
      (await redis.hkeys(row)).filter((name) => /^(open|window):/.test(name)).toSorted()
    await die(first.id)
    await die(other.id)
    await make()
    t.same(await left(), [`open:${next.id}`, windows[0]])
    await make()
    await die(next.id)
    await make()
    t.same(await left(), [])
  },
)
