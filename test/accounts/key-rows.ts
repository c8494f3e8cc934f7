// Rows of keys as they are shown.

import t from 'tap'
import { readKeys, redisSeconds, statusOf } from '../../src/accounts/key-rows.ts'
import { keys } from '../../src/redis/keys.ts'
import { connectLink, makeAccount } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

t.test(
  'a key shows its budget with the window that runs, also that of the key it replaces',
  async (t) => {
    const link = await connectLink(t, (await startRedis(t)).socket)
    const { ref } = await makeAccount(link, { key: { budget: '100 day' } })
    const old = `key_${ref}`
    const row = { id: 'key_new', budget: '100 day', budget_of: old }
    await link.client.hset(keys.key(ref, 'new'), row)
    await link.client.hset(keys.key(ref, 'plain'), { id: 'key_plain' })
    const end = Math.floor(Date.now() / 1000) + 100
    await link.client.hset(keys.account(ref), { [`window:${old}:day`]: `day 1 ${end}000 30` })
    const found = await readKeys(link.client, ref, ['hmac', 'new', 'plain', 'none'])
    const budget = { tokens: 100, every: 'day', used: 30, renews_at: end }
    t.match(found, [
      { id: old, account_id: `acct_${ref}`, budget },
      { id: 'key_new', budget },
      { id: 'key_plain', budget: null },
      { id: '' },
    ])
  },
)

t.test('a key is revoked or expired by the clock of Redis', async (t) => {
  const link = await connectLink(t, (await startRedis(t)).socket)
  const now = await redisSeconds(link.client)
  t.ok(Math.abs(now - Date.now() / 1000) < 60)
  t.equal(statusOf({}, now), 'active')
  t.equal(statusOf({ expires_at: `${now}` }, now), 'expired')
  t.equal(statusOf({ expires_at: `${now + 1}`, revoked_at: `${now}` }, now), 'revoked')
})
