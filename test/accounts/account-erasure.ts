// src/accounts/account-erasure.ts: what is removed of a closed account, what stays, and that the others keep theirs.

import t from 'tap'
import type { Test } from 'tap'
import { createAccounts } from '../../src/accounts/accounts.ts'
import { keys } from '../../src/redis/keys.ts'
import { keysOf } from '../fixtures/files-left.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

async function start(t: Test) {
  const { client: redis } = await connectLink(t, (await startRedis(t)).socket)
  const accounts = createAccounts(redis, { plugins: new Map() })
  const make = (name: string) =>
    accounts.createAccount({ name, externalId: `cus_${name}`, metadata: { mail: name } })
  const closed = async (name: string) => {
    const made = await make(name)
    await redis.hset(keys.account(made.ref), 'closed_at', '1', 'status', 'suspended')
    return made
  }
  return { redis, accounts, make, closed }
}

t.test('all keys go, in however many rounds, and those of others stay', async (t) => {
  const { redis, accounts, make } = await start(t)
  const [{ ref }, other] = [await make('a'), await make('b')]
  const made = await Promise.all(Array.from({ length: 250 }, () => accounts.createKey(ref, {})))
  const { id, key } = await accounts.createKey(other.ref, { name: 'stays' })
  await accounts.eraseKeys(ref)
  await accounts.eraseKeys(ref)
  t.strictSame(await accounts.listKeys(ref), [])
  t.strictSame(await redis.hgetall(keys.keyIds), { [id]: other.ref })
  const [first] = made
  await t.rejects(accounts.findKey(first?.key ?? ''), { code: 'key_not_found' })
  await t.rejects(accounts.revokeKey(first?.id ?? ''), { code: 'key_not_found' })
  t.match(await accounts.findKey(key), { name: 'stays' })
  t.equal((await keysOf(redis)).filter((one) => one.startsWith(`{${ref}}:key`)).length, 0)
})

t.test('of its rows only the books stay, and what a sweeper still needs', async (t) => {
  const { redis, accounts, make, closed } = await start(t)
  const [{ ref, account }, other] = [await closed('a'), await make('b')]
  const books = [
    'journal',
    'usage:h1',
    'usage:d1',
    'settled:1',
    'credit:topup:x',
    'storage',
    'due',
    'session-objects',
  ]
  const others = ['rate', 'claim:x', 'frames:x', 'stream:x', 'file:x', 'session:x:files', 'other:x']
  for (const name of [...books, ...others]) {
    for (const one of [ref, other.ref]) await redis.set(`{${one}}:${name}`, '1')
  }
  // More than one look at the keys takes.
  const many = Array.from({ length: 3000 }, (_, i) => [`{${ref}}:claim:${i}`, '1']).flat()
  await redis.mset(many)
  const left = async (of: string) =>
    (await keysOf(redis)).filter((key) => key.startsWith(`{${of}}:`)).length
  await accounts.eraseRows(ref)
  t.equal(await left(ref), books.length + 1, 'and the account')
  t.equal(await left(other.ref), books.length + others.length + 1)
  await accounts.eraseAccount(ref, account.id)
  t.equal(await redis.exists(keys.storage(ref)), 1, 'something is due')
  await redis.del(keys.due(ref))
  await accounts.eraseAccount(ref, account.id)
  t.equal(await redis.exists(keys.storage(ref)), 0)
})

t.test('its row loses what it had for each of its keys, however many there were', async (t) => {
  const { redis, accounts, closed } = await start(t)
  const { ref, account } = await closed('a')
  const row = keys.account(ref)
  for (let i = 0; i < 150_000; i += 10_000) {
    const ids = Array.from({ length: 10_000 }, (_, j) => `key_${i + j}`)
    await redis.hset(
      row,
      ...ids.flatMap((id) => [`open:${id}`, '0', `window:${id}:day`, 'day 1 2 3']),
    )
  }
  await redis.hset(row, { window: 'day 1 2 3', budget: '5 day' })
  await accounts.eraseAccount(ref, account.id)
  const left = Object.keys(await redis.hgetall(row)).filter((name) => /^(open|window)/.test(name))
  t.strictSame(left, ['window'])
})

t.test('it loses all names that it ever had, and another may take them', async (t) => {
  const { redis, accounts, make, closed } = await start(t)
  const { ref, account } = await closed('a')
  await redis.hdel(keys.account(ref), 'closed_at')
  await accounts.setAccount(account.id, { name: 'later', externalId: 'cus_later' })
  await redis.hset(keys.account(ref), 'closed_at', '1', 'open:key_1', '0')
  const other = await make('b')
  await accounts.eraseAccount(ref, account.id)
  const found = await accounts.getAccount(account.id)
  t.match(found.account, {
    id: account.id,
    name: '',
    external_id: null,
    metadata: {},
    status: 'deleted',
    deleted_at: Number,
  })
  const row = await redis.hgetall(keys.account(ref))
  const stays = ['closed_at', 'created_at', 'deleted_at', 'id', 'plan', 'status']
  t.strictSame(Object.keys(row).toSorted(), stays)
  const owners = await redis.hvals(keys.nameOwners)
  t.strictSame(owners, [other.account.id, other.account.id])
  t.strictSame(await redis.zrange(keys.accountNames, '0', '-1'), [`b\0${other.account.id}`])
  for (const name of ['a', 'later']) await t.resolves(make(name), name)
})

t.test('it is listed apart, and nothing can be changed or made in it', async (t) => {
  const { accounts, make, closed } = await start(t)
  const [{ ref, account }, other] = [await closed('a'), await make('b')]
  const page = { limit: 9, order: 'desc' } as const
  const ids = async (list: typeof accounts.listAccounts) =>
    (await list(page)).data.map(({ id }) => id)
  t.match((await accounts.getAccount('a')).account, { status: 'deleting' })
  t.strictSame(await ids(accounts.listAccounts), [other.account.id, account.id])
  for (const _ of [1, 2]) await accounts.eraseAccount(ref, account.id)
  t.strictSame(await ids(accounts.listAccounts), [other.account.id])
  t.strictSame(await ids(accounts.listDeleted), [account.id])
  await t.rejects(accounts.getAccount('a'), { code: 'account_not_found' })
  const deleted = { code: 'account_deleted' }
  for (const fields of [{ status: 'active' }, { name: 'c', externalId: 'x' }] as const) {
    await t.rejects(accounts.setAccount(account.id, fields), deleted)
  }
  await t.rejects(accounts.createKey(ref, {}), deleted)
  await t.resolves(make('c'), 'the change that was refused has taken no name')
  // A creation that is repeated under its Idempotency-Key does not bring it back.
  const seed = { id: account.id, ref, createdAt: account.created_at }
  const again = await accounts.createAccount({ name: 'a' }, seed)
  t.match(again.account, { id: account.id, status: 'deleted', name: '' })
  t.strictSame(await ids(accounts.listAccounts).then((all) => all.length), 2)
})
