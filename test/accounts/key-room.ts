import t from 'tap'
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
