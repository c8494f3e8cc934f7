import t from 'tap'
import type { Test } from 'tap'
import type { Redis } from '../../src/redis/client.ts'
import { createAccounts } from '../../src/accounts/accounts.ts'
import type { Accounts } from '../../src/accounts/accounts.ts'
import { newAccountSeed } from '../../src/accounts/accounts.ts'
import { keys } from '../../src/redis/keys.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const noPlugins = { plugins: new Map() }

async function start(t: Test): Promise<{ readonly accounts: Accounts; readonly redis: Redis }> {
  const { client: redis } = await connectLink(t, (await startRedis(t)).socket)
  return { redis, accounts: createAccounts(redis, noPlugins) }
}

const upwards = { limit: 2, order: 'asc' } as const
const downwards = { limit: 2, order: 'desc' } as const

t.test('an account is found by its id and by its exact name', async (t) => {
  const { accounts } = await start(t)
  const { ref, account } = await accounts.createAccount({ name: 'Ana Ünal', externalId: 'u-1' })
  t.match(account, {
    id: /^acct_[0-9a-f]{32}$/,
    object: 'account',
    name: 'Ana Ünal',
    plan: 'default',
    status: 'active',
    external_id: 'u-1',
    metadata: {},
  })
  t.match(ref, /^[0-9A-Za-z]{12}$/)
  t.ok(Math.abs(account.created_at - Date.now() / 1000) < 60)
  t.strictSame(await accounts.getAccount(account.id), { ref, account })
  t.strictSame(await accounts.getAccount('Ana Ünal'), { ref, account })
  for (const wrong of [
    'Ana',
    'Ana Ünal ',
    'ana ünal',
    'acct_',
    `${account.id}0`,
    account.id.slice(0, -1),
    '',
  ]) {
    await t.rejects(accounts.getAccount(wrong), { code: 'account_not_found' }, wrong)
  }
})

t.test('a name from before names were claimed is taken, too', async (t) => {
  const { accounts, redis } = await start(t)
  const { account } = await accounts.createAccount({ name: 'old' })
  await redis.del(keys.nameOwners)
  const refused = { code: 'invalid_parameter', param: 'name' }
  await t.rejects(accounts.createAccount({ name: 'old' }), refused)
  t.equal((await accounts.setAccount(account.id, { name: 'old' })).account.name, 'old')
})

t.test('no two accounts have one name or external id, even if made at once', async (t) => {
  const { accounts } = await start(t)
  const made = await Promise.allSettled(
    Array.from({ length: 20 }, () => accounts.createAccount({ name: 'twin', externalId: 'cus_1' })),
  )
  const [first, ...others] = made.filter(({ status }) => status === 'fulfilled')
  t.equal(others.length, 0)
  t.ok(first)
  const taken = (param: string) => ({ code: 'invalid_parameter', param })
  await t.rejects(
    accounts.createAccount({ name: 'other', externalId: 'cus_1' }),
    taken('external_id'),
  )
  const { account } = await accounts.createAccount({ name: 'free' })
  await t.rejects(accounts.setAccount('free', { name: 'twin' }), taken('name'))
  await t.rejects(accounts.setAccount('free', { externalId: 'cus_1' }), taken('external_id'))
  await accounts.setAccount('twin', { name: 'renamed', externalId: null })
  await accounts.setAccount('free', { name: 'twin', externalId: 'cus_1' })
  t.equal((await accounts.getAccount('twin')).account.id, account.id)
})

t.test('when several accounts ask at once for a name that was given up, one gets it', async (t) => {
  const { accounts } = await start(t)
  const names = { name: 'a', externalId: 'cus_1' }
  const { account } = await accounts.createAccount(names)
  await accounts.setAccount('a', { name: 'b', externalId: null })
  const asking = Array.from({ length: 10 }, () => accounts.createAccount(names))
  const made = (await Promise.allSettled(asking)).filter(({ status }) => status === 'fulfilled')
  t.equal(made.length, 1)
  await accounts.setAccount(account.id, { name: 'c' })
  // The account that had the name before has no priority.
  const back = accounts.setAccount(account.id, { name: 'b' })
  await Promise.allSettled([back, accounts.createAccount({ name: 'b' })])
  const { data } = await accounts.listAccounts({ ...upwards, limit: 100 })
  t.equal(data.filter(({ name }) => name === 'b').length, 1)
})

t.test('an account that is refused for one of its names does not take the other', async (t) => {
  const { accounts } = await start(t)
  await accounts.createAccount({ name: 'a', externalId: 'cus_1' })
  const taken = { code: 'invalid_parameter', param: 'external_id' }
  await t.rejects(accounts.createAccount({ name: 'b', externalId: 'cus_1' }), taken)
  const { account } = await accounts.createAccount({ name: 'b', externalId: 'cus_2' })
  t.equal((await accounts.getAccount('b')).account.id, account.id)
})

t.test('two that had one name before names were taken are refused, not guessed', async (t) => {
  const { accounts, redis } = await start(t)
  const [one, two] = [
    await accounts.createAccount({ name: 'one' }),
    await accounts.createAccount({ name: 'two' }),
  ]
  await redis.hset(keys.account(two.ref), 'name', 'one')
  await redis.zadd(keys.accountNames, 0, `one\0${two.account.id}`)
  await t.rejects(accounts.getAccount('one'), { code: 'invalid_parameter', param: 'id' })
  await accounts.setAccount(two.account.id, { name: 'other' })
  t.equal((await accounts.getAccount('one')).ref, one.ref)
})

t.test('accounts are found by name and by external id, and by nothing else', async (t) => {
  const { accounts } = await start(t)
  const { ref } = await accounts.createAccount({ name: 'a', externalId: 'cus_1' })
  await accounts.createAccount({ name: 'b' })
  const refs = async (filter: object) =>
    (await accounts.findAccounts(filter)).map((found) => found.ref)
  t.strictSame(await refs({ externalId: 'cus_1' }), [ref])
  t.strictSame(await refs({ name: 'a' }), [ref])
  t.strictSame(await refs({ name: 'a', externalId: 'cus_1' }), [ref])
  t.strictSame(await refs({ name: 'b', externalId: 'cus_1' }), [])
  t.strictSame(await refs({ externalId: 'cus_2' }), [])
  await accounts.setAccount('a', { externalId: 'cus_2' })
  t.strictSame(await refs({ externalId: 'cus_1' }), [], 'it was given up')
})

t.test('a renamed account is found only by its new name, also if renamed back', async (t) => {
  const { accounts } = await start(t)
  const { account } = await accounts.createAccount({ name: 'a' })
  await accounts.setAccount('a', { name: 'b' })
  await t.rejects(accounts.getAccount('a'), { code: 'account_not_found' })
  t.equal((await accounts.getAccount('b')).account.id, account.id)
  await accounts.setAccount('b', { name: 'a' })
  t.equal((await accounts.getAccount('a')).account.id, account.id)
  await t.rejects(accounts.getAccount('b'), { code: 'account_not_found' })
})

t.test('a change touches what it names; null clears; sums of the ledger stay', async (t) => {
  const { accounts, redis } = await start(t)
  const { ref } = await accounts.createAccount({
    name: 'a',
    externalId: 'x',
    metadata: { k: '1', l: '2' },
  })
  await redis.hset(keys.account(ref), 'granted', '9007199254740991')
  const changed = await accounts.setAccount('a', {
    status: 'suspended',
    externalId: null,
    metadata: { k: '3' },
  })
  t.match(changed.account, { name: 'a', plan: 'default', status: 'suspended', external_id: null })
  t.strictSame(changed.account.metadata, { k: '3' })
  t.equal((await accounts.setAccount('a', { plan: 'big' })).account.plan, 'big')
  t.strictSame((await accounts.setAccount('a', {})).account.metadata, { k: '3' })
  t.equal(await redis.hget(keys.account(ref), 'granted'), '9007199254740991')
  await t.rejects(accounts.setAccount('nobody', { plan: 'big' }), { code: 'account_not_found' })
})

t.test('the list is in order of creation, both ways, forwards and backwards', async (t) => {
  const { accounts } = await start(t)
  t.strictSame(await accounts.listAccounts(upwards), {
    object: 'list',
    data: [],
    first_id: null,
    last_id: null,
    has_more: false,
  })
  const ids: string[] = []
  for (const name of ['0', '1', '2', '3', '4'])
    ids.push((await accounts.createAccount({ name })).account.id)
  const names = async (page: Parameters<Accounts['listAccounts']>[0]) => {
    const { data, has_more, first_id, last_id } = await accounts.listAccounts(page)
    t.strictSame([first_id, last_id], [data[0]?.id, data.at(-1)?.id])
    return `${data.map(({ name }) => name).join('')}${has_more ? '…' : ''}`
  }
  t.equal(await names(upwards), '01…')
  t.equal(await names({ ...upwards, after: ids[1] }), '23…')
  t.equal(await names({ ...upwards, after: ids[3] }), '4')
  t.equal(await names({ ...upwards, before: ids[3] }), '12…')
  t.equal(await names({ ...upwards, before: ids[2] }), '01')
  t.equal(await names(downwards), '43…')
  t.equal(await names({ ...downwards, after: ids[3] }), '21…')
  t.equal(await names({ ...downwards, after: ids[1] }), '0')
  t.equal(await names({ ...downwards, before: ids[1] }), '32…')
  t.equal(await names({ ...downwards, before: ids[2] }), '43')
  t.equal(await names({ ...upwards, limit: 5 }), '01234')
})

t.test('the same creation happens once, and keeps what was changed since', async (t) => {
  const { accounts } = await start(t)
  const seed = newAccountSeed()
  const first = await accounts.createAccount({ name: 'once' }, seed)
  await accounts.setAccount('once', { status: 'suspended' })
  const again = await accounts.createAccount({ name: 'once' }, seed)
  t.equal(again.account.id, first.account.id)
  t.equal(again.account.status, 'suspended')
  t.equal((await accounts.listAccounts({ ...upwards, limit: 10 })).data.length, 1)
})

t.test('a creation that was cut short leaves nothing that is found', async (t) => {
  const { accounts, redis } = await start(t)
  // Made some time ago: an account that is being made now already has its name.
  const seed = { ...newAccountSeed(), id: `acct_${uuidAt(Date.now() - 60_000)}` }
  const { ref, account } = await accounts.createAccount({ name: 'half' }, seed)
  await redis.zrem(keys.accounts, `${account.id}:${ref}`)
  await t.rejects(accounts.getAccount('half'), { code: 'account_not_found' })
  await t.rejects(accounts.getAccount(account.id), { code: 'account_not_found' })
  const { account: next } = await accounts.createAccount({ name: 'half' })
  t.equal((await accounts.getAccount('half')).account.id, next.id)
})

t.test('with Redis away every call is ledger_unavailable', async (t) => {
  const server = await startRedis(t)
  const { client: redis } = await connectLink(t, server.socket)
  await server.kill()
  const accounts = createAccounts(redis, noPlugins)
  const refused = { code: 'ledger_unavailable' }
  await t.rejects(accounts.createAccount({ name: 'a' }), refused)
  await t.rejects(accounts.getAccount('a'), refused)
  await t.rejects(accounts.listAccounts(upwards), refused)
  await t.rejects(accounts.listKeys('a'), refused)
  await t.rejects(accounts.revokeKey('a'), refused)
})

/** A UUIDv7 in hex with this time, in ms. */
function uuidAt(ms: number): string {
  return `${ms.toString(16).padStart(12, '0')}7000${'8000000000000000'}`
}
