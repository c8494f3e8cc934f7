import t from 'tap'
import type { Test } from 'tap'
import { newKeySeed } from '../../src/accounts/account-keys.ts'
import { createAccounts } from '../../src/accounts/accounts.ts'
import { hmacKey, parseKey } from '../../src/accounts/api-key.ts'
import { keys } from '../../src/redis/keys.ts'
import { inFlight } from '../fixtures/in-flight.ts'
import { openOn } from '../fixtures/ledger.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { pick } from '../fixtures/pick.ts'

const withPepper = (pepper: string) => ({ plugins: new Map([['auth', { pepper }]]) })

async function start(t: Test, pepper = '') {
  const { client: redis } = await connectLink(t, (await startRedis(t)).socket)
  const accounts = createAccounts(redis, withPepper(pepper))
  const { ref, account } = await accounts.createAccount({ name: 'owner' })
  return { redis, accounts, ref, account }
}

const nowS = () => Math.floor(Date.now() / 1000)

t.test('a key names its account, and only its HMAC is stored', async (t) => {
  const { accounts, redis, ref, account } = await start(t, 'pepper')
  const { key, ...shown } = await accounts.createKey(ref, { name: 'first' })
  t.strictSame(parseKey(key), { ref })
  t.match(shown, {
    id: /^key_[0-9a-f]{32}$/,
    object: 'api_key',
    account_id: account.id,
    name: 'first',
    hint: `tg_live_…${key.slice(-4)}`,
    scopes: ['chat', 'sessions', 'files', 'billing'],
    models: ['*'],
    limits: {},
    expires_at: null,
    revoked_at: null,
    last_used_at: null,
    status: 'active',
  })
  t.equal(await redis.hget(keys.key(ref, hmacKey(key, 'pepper')), 'id'), shown.id)
  t.strictSame(await accounts.listKeys(ref), [shown])
  for (const name of await redis.keys('*')) {
    const type = await redis.type(name)
    const value = type === 'hash' ? JSON.stringify(await redis.hgetall(name)) : ''
    t.notOk(`${name} ${value}`.includes(key.slice(-36)), `${name} does not hold the secret`)
  }
})

t.test("the row has the fields that the ledger's scripts read", async (t) => {
  const { accounts, redis, ref } = await start(t)
  const expiresAt = nowS() + 100
  const limits = { requests_per_minute: 1, tokens_per_minute: 2, concurrency: 3 }
  const made = await accounts.createKey(ref, {
    scopes: ['chat', 'files'],
    models: ['a', 'b'],
    expiresAt,
    limits,
  })
  t.match(await redis.hgetall(keys.key(ref, hmacKey(made.key, ''))), {
    id: made.id,
    scopes: 'chat files',
    models: 'a b',
    expires_at: String(expiresAt),
    rpm: '1',
    tpm: '2',
    concurrency: '3',
  })
  t.match(made, { scopes: ['chat', 'files'], models: ['a', 'b'], limits, expires_at: expiresAt })
  t.equal(await redis.hget(keys.keyIds, made.id), ref)
})

t.test('an account that does not exist gets no key', async (t) => {
  const { accounts, redis } = await start(t)
  await t.rejects(accounts.createKey('000000000000', {}), { code: 'account_not_found' })
  t.strictSame(await redis.keys('{000000000000}*'), [])
})

t.test('keys are listed in order of creation', async (t) => {
  const { accounts, ref } = await start(t)
  for (const name of ['0', '1', '2', '3', '4']) await accounts.createKey(ref, { name })
  t.equal((await accounts.listKeys(ref)).map(({ name }) => name).join(''), '01234')
  t.strictSame(await accounts.listKeys('000000000000'), [])
})

t.test('a revoked key stays listed; revoking again changes nothing', async (t) => {
  const { accounts, redis, ref } = await start(t)
  const { id } = await accounts.createKey(ref, {})
  const first = await accounts.revokeKey(id)
  t.equal(first.status, 'revoked')
  t.ok(Math.abs(Number(first.revoked_at) - nowS()) <= 2)
  const hmac = await redis.hget(keys.keyList(ref), id)
  await redis.hset(keys.key(ref, hmac ?? ''), 'revoked_at', nowS() - 100)
  t.ok(Number((await accounts.revokeKey(id)).revoked_at) < nowS() - 90)
  t.equal((await accounts.listKeys(ref)).length, 1)
  await t.rejects(accounts.revokeKey('key_unknown'), { code: 'key_not_found' })
})

t.test('a key past its expiry is expired', async (t) => {
  const { accounts, ref } = await start(t)
  const { status, id } = await accounts.createKey(ref, { expiresAt: nowS() - 10 })
  t.equal(status, 'expired')
  t.equal((await accounts.revokeKey(id)).status, 'revoked')
})

t.test('a rotated key passes its properties on, and expires after the grace', async (t) => {
  const { accounts, ref } = await start(t)
  const fields = {
    name: 'n',
    scopes: ['chat'] as const,
    models: ['m'],
    expiresAt: nowS() + 1000,
    limits: { concurrency: 2 },
  }
  const old = await accounts.createKey(ref, fields)
  const made = await accounts.rotateKey(old.id, 60)
  t.not(made.id, old.id)
  t.not(made.key, old.key)
  const { name, scopes, models, limits, expires_at } = old
  t.match(made, { name, scopes, models, limits, expires_at, status: 'active' })
  const [before, after] = await accounts.listKeys(ref)
  t.equal(before?.status, 'active')
  t.ok(Math.abs(Number(before?.expires_at) - nowS() - 60) < 30)
  t.equal(after?.id, made.id)
})

t.test('without grace the old key is revoked at once', async (t) => {
  const { accounts, ref } = await start(t)
  const { id } = await accounts.createKey(ref, {})
  await accounts.rotateKey(id, 0)
  t.strictSame(pick(await accounts.listKeys(ref), 'status'), ['revoked', 'active'])
  await t.rejects(accounts.rotateKey(id, 0), { code: 'invalid_parameter', param: 'id' })
  await t.rejects(accounts.rotateKey('key_unknown', 0), { code: 'key_not_found' })
})

t.test('a grace does not prolong a key that ends sooner', async (t) => {
  const { accounts, ref } = await start(t)
  const soon = nowS() + 50
  const { id } = await accounts.createKey(ref, { expiresAt: soon })
  await accounts.rotateKey(id, 3600)
  t.equal((await accounts.listKeys(ref))[0]?.expires_at, soon)
})

t.test('the same creation or rotation carried out twice happens once', async (t) => {
  const { accounts, ref } = await start(t)
  const seed = newKeySeed(ref)
  const first = await accounts.createKey(ref, { name: 'once' }, seed)
  await accounts.revokeKey(first.id)
  const again = await accounts.createKey(ref, { name: 'once' }, seed)
  t.equal(again.key, first.key)
  t.equal(again.status, 'revoked', 'it does not come back to life')
  const second = await accounts.createKey(ref, {})
  const rotation = newKeySeed(ref)
  const made = await accounts.rotateKey(second.id, 0, rotation)
  t.strictSame(await accounts.rotateKey(second.id, 0, rotation), made)
  t.equal((await accounts.listKeys(ref)).length, 3)
})

t.test('a creation repeated late does not give a rotated key its old end back', async (t) => {
  const { accounts, ref } = await start(t)
  const seed = newKeySeed(ref)
  const fields = { expiresAt: nowS() + 10_000 }
  const { id } = await accounts.createKey(ref, fields, seed)
  await accounts.rotateKey(id, 60)
  const again = await accounts.createKey(ref, fields, seed)
  t.ok(Number(again.expires_at) < nowS() + 100)
})

t.test('a rotation that was cut short is finished when it is repeated', async (t) => {
  const { accounts, ref } = await start(t)
  const old = await accounts.createKey(ref, {})
  const seed = newKeySeed(ref)
  await accounts.createKey(ref, {}, seed)
  const made = await accounts.rotateKey(old.id, 0, seed)
  t.equal(made.key, seed.text)
  t.equal((await accounts.listKeys(ref))[0]?.status, 'revoked')
})

t.test('an id whose key was never written leads to no key', async (t) => {
  const { accounts, redis, ref } = await start(t)
  await redis.hset(keys.keyIds, 'key_orphan', ref)
  await t.rejects(accounts.revokeKey('key_orphan'), { code: 'key_not_found' })
})

t.test('a key opens the ledger until it is revoked or its account suspended', async (t) => {
  const { link, ledger } = await openOn(t)
  const accounts = createAccounts(link.client, withPepper('pepper'))
  const { ref, account } = await accounts.createAccount({ name: 'a' })
  const made = await accounts.createKey(ref, { scopes: ['chat'], models: ['m'] })
  const identify = (key: string, scope: 'chat' | 'files') =>
    ledger.identify({ ref, hmac: hmacKey(key, 'pepper'), scope })
  const expected = {
    accountId: account.id,
    accountName: 'a',
    plan: 'default',
    keyId: made.id,
    models: ['m'],
  }
  t.match(await identify(made.key, 'chat'), expected)
  t.ok((await accounts.listKeys(ref))[0]?.last_used_at, 'its use is seen')
  await t.rejects(identify(made.key, 'files'), { code: 'insufficient_scope' })
  await t.rejects(identify(newKeySeed(ref).text, 'chat'), { code: 'invalid_api_key' })
  await accounts.setAccount('a', { status: 'suspended' })
  await t.rejects(identify(made.key, 'chat'), { code: 'account_suspended' })
  await accounts.setAccount('a', { status: 'active' })
  const next = await accounts.rotateKey(made.id, 60)
  t.ok(await identify(made.key, 'chat'), 'within the grace')
  t.match(await identify(next.key, 'chat'), { keyId: next.id, models: ['m'] })
  await accounts.revokeKey(next.id)
  await t.rejects(identify(next.key, 'chat'), { code: 'api_key_revoked' })
  const past = await accounts.createKey(ref, { expiresAt: nowS() - 1 })
  await t.rejects(identify(past.key, 'chat'), { code: 'api_key_expired' })
})

t.test('hundreds of lists at once are read one after the other', async (t) => {
  const { accounts, redis, ref } = await start(t)
  for (let i = 0; i < 30; i++) await accounts.createKey(ref, { name: `${i}` })
  const flights = inFlight(redis, 'hgetall')
  const lists = await Promise.all(Array.from({ length: 20 }, () => accounts.listKeys(ref)))
  t.same(new Set(lists.map((list) => list.length)), new Set([30]))
  t.equal(flights.most, 30)
})

t.test('a list of thousands is read in pieces, in order', async (t) => {
  const { accounts, redis, ref } = await start(t)
  const made = await Promise.all(Array.from({ length: 250 }, () => accounts.createKey(ref, {})))
  const flights = inFlight(redis, 'hgetall')
  const ids = pick(await accounts.listKeys(ref), 'id')
  t.same(ids, pick(made, 'id').toSorted())
  t.equal(flights.most, 100)
})
