import t from 'tap'
import type { Test } from 'tap'
import { createAccounts } from '../../src/accounts/accounts.ts'
import { keyReader } from '../../src/accounts/api-key.ts'
import { createPageKeys } from '../../src/portal/page-keys.ts'
import { createPortal } from '../../src/portal/portal.ts'
import { entryOf } from '../../src/portal/secrets.ts'
import { keys } from '../../src/redis/keys.ts'
import { openOn } from '../fixtures/ledger.ts'

async function start(t: Test) {
  const { link, ledger } = await openOn(t)
  const accounts = createAccounts(link.client, { plugins: new Map() })
  const portal = createPortal(link, 20)
  const { ref } = await accounts.createAccount({ name: 'owner' })
  const enter = async () =>
    entryOf((await portal.enter((await portal.makeLink(ref)).secret)).secret)
  const make = createPageKeys(link, { pepper: '', most: 10 })
  const read = keyReader({ plugins: new Map() })
  const identify = async (text: string, scope: 'chat' | 'billing' = 'chat') => {
    const names = read(text)
    if (!names) throw new Error('no key')
    return ledger.identify({ ...names, scope })
  }
  return { redis: link.client, accounts, portal, ref, enter, make, identify }
}

t.test('a key of the playground works for an hour and stands in no list', async (t) => {
  const { redis, accounts, ref, enter, make, identify } = await start(t)
  const login = await enter()
  const [one, two] = [await make(login), await make(login)]
  t.not(one.key, two.key)
  t.equal(one.id, two.id, 'one id for all of an account')
  t.equal((await identify(one.key)).keyId, one.id)
  await t.rejects(identify(one.key, 'billing'), { code: 'insufficient_scope' })
  t.strictSame(await accounts.listKeys(ref), [])
  const left = one.expires_at - Date.now() / 1000
  t.ok(left > 3590 && left <= 3601)
  for (const name of await redis.keys(`{${ref}}:key:*`)) {
    t.ok((await redis.ttl(name)) > 3600, 'Redis removes the row by itself')
    await redis.hset(name, 'expires_at', 1)
  }
  await t.rejects(identify(one.key), { code: 'api_key_expired' })
})

t.test('a suspension ends the keys for good', async (t) => {
  const { accounts, enter, make, identify } = await start(t)
  const { key } = await make(await enter())
  await accounts.setAccount('owner', { status: 'suspended' })
  await accounts.setAccount('owner', { status: 'active' })
  await t.rejects(identify(key), { code: 'invalid_api_key' })
  t.ok(await identify((await make(await enter())).key), 'a new log-in has new ones')
})

t.test('log-out ends the keys of that log-in, and no others', async (t) => {
  const { portal, enter, make, identify } = await start(t)
  const [mine, other] = [await enter(), await enter()]
  const [gone, stays] = [await make(mine), await make(other)]
  await portal.leave(mine)
  await t.rejects(identify(gone.key), { code: 'invalid_api_key' })
  t.ok(await identify(stays.key))
  await t.rejects(make(mine), { code: 'not_logged_in' })
})

t.test('a log-in that a further one pushes out takes its keys with it', async (t) => {
  const { redis, portal, ref, enter, make, identify } = await start(t)
  const first = await enter()
  const [gone, also] = [await make(first), await make(first)]
  const stays = await make(await enter())
  for (let i = 0; i < 19; i++) await portal.open(ref)
  await t.rejects(portal.look(first), { code: 'not_logged_in' })
  for (const { key } of [gone, also]) await t.rejects(identify(key), { code: 'invalid_api_key' })
  t.ok(await identify(stays.key))
  await enter()
  await t.rejects(identify(stays.key), { code: 'invalid_api_key' })
  t.strictSame(await redis.keys(`{${ref}}:key:*`), [])
  t.equal(await redis.hlen(keys.pageKeys(ref)), 0)
})

t.test(
  'a key ends with the week of its log-in, and none is made for one that has ended',
  async (t) => {
    const { redis, ref, enter, make } = await start(t)
    const [hourMs, weekMs] = [3_600_000, 7 * 24 * 3_600_000]
    const login = await enter()
    const begun = Date.now() - weekMs + hourMs / 2
    await redis.hset(keys.logins(ref), login.hash, `${begun} ${Date.now()} link `)
    const { expires_at } = await make(login)
    const left = expires_at - Date.now() / 1000
    t.ok(left > 1780 && left <= 1800, String(left))
    await redis.hset(keys.logins(ref), login.hash, `${begun - hourMs} ${Date.now()} link `)
    await t.rejects(make(login), { code: 'not_logged_in' })
  },
)

t.test('there are at most ten: a further one ends the oldest', async (t) => {
  const { redis, ref, enter, make, identify } = await start(t)
  const login = await enter()
  const made = []
  for (let i = 0; i < 30; i++) made.push(await make(login))
  t.equal(await redis.hlen(keys.pageKeys(ref)), 10)
  t.equal((await redis.keys(`{${ref}}:key:*`)).length, 10)
  t.ok(await identify(made.at(-1)?.key ?? ''))
  await t.rejects(identify(made[0]?.key ?? ''), { code: 'invalid_api_key' })
})
