import { hash } from 'node:crypto'
import t from 'tap'
import type { Test } from 'tap'
import { createAccounts } from '../../src/accounts/accounts.ts'
import { createPortal, linkMs } from '../../src/portal/portal.ts'
import { entryOf, newSecret } from '../../src/portal/secrets.ts'
import { keys } from '../../src/redis/keys.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startCluster } from '../fixtures/redis-cluster.ts'
import { startRedis } from '../fixtures/redis-server.ts'

async function start(t: Test) {
  const link = await connectLink(t, (await startRedis(t)).socket)
  const redis = link.client
  const accounts = createAccounts(redis, { plugins: new Map() })
  const portal = createPortal(link, 20)
  const { ref, account } = await accounts.createAccount({ name: 'owner', plan: 'big' })
  const enter = async () =>
    entryOf((await portal.enter((await portal.makeLink(ref)).secret)).secret)
  return { redis, accounts, portal, ref, account, enter }
}

const refused = { code: 'invalid_link' }
const out = { code: 'not_logged_in' }

t.test('a link lets in, and the cookie says who it is; Redis has hashes alone', async (t) => {
  const { redis, portal, ref, account } = await start(t)
  const { secret, expiresAt } = await portal.makeLink(ref, 'https://www.example.com/')
  t.ok(Math.abs(expiresAt - (Date.now() + linkMs) / 1000) < 5)
  const entered = await portal.enter(secret)
  t.equal(entered.accountId, account.id)
  t.match(await portal.look(entryOf(entered.secret)), {
    ref,
    accountId: account.id,
    name: 'owner',
    plan: 'big',
    via: 'link',
    returnUrl: 'https://www.example.com/',
  })
  const all = await Promise.all(
    (await redis.keys('*')).map(async (name) => {
      const isHash = (await redis.type(name)) === 'hash'
      return `${name} ${isHash ? JSON.stringify(await redis.hgetall(name)) : ''}`
    }),
  )
  for (const text of [secret, entered.secret])
    t.notOk(
      all.some((one) => one.includes(text.slice(13))),
      'in clear',
    )
  t.ok((await redis.pttl(keys.logins(ref))) > 0)
})

t.test('a link lets in once: of 50 calls at once, one', async (t) => {
  const { redis, portal, ref } = await start(t)
  const { secret } = await portal.makeLink(ref)
  const all = await Promise.allSettled(Array.from({ length: 50 }, () => portal.enter(secret)))
  t.equal(all.filter(({ status }) => status === 'fulfilled').length, 1)
  t.equal(await redis.hlen(keys.logins(ref)), 1)
  await t.rejects(portal.enter(secret), refused)
})

t.test('wrong, used, expired and guessed links are refused alike', async (t) => {
  const { redis, accounts, portal, ref } = await start(t)
  const { ref: other } = await accounts.createAccount({ name: 'other' })
  const { secret } = await portal.makeLink(ref)
  const own = secret.slice(13)
  for (const text of ['', 'x', newSecret(ref), newSecret(other), `${other}.${own}`, `${secret}x`])
    await t.rejects(portal.enter(text), refused, text.slice(0, 20))
  const field = hash('sha256', secret, 'base64url')
  t.equal(await redis.hexists(keys.portalLinks(ref), field), 1, 'none of this has used it up')
  await redis.hset(keys.portalLinks(ref), field, `${Date.now() - 1} ${Date.now() - linkMs} `)
  await t.rejects(portal.enter(secret), refused, 'expired')
  t.equal(await redis.hlen(keys.logins(other)), 0)
})

t.test('a log-in ends without use, after a week, and by log-out', async (t) => {
  const { redis, portal, ref, enter } = await start(t)
  const hourMs = 3_600_000
  for (const [begun, used] of [
    [13, 12.01],
    [24 * 7 + 0.01, 0.1],
  ] as const) {
    const entry = await enter()
    const row = `${Date.now() - begun * hourMs} ${Math.floor(Date.now() - used * hourMs)} link `
    await redis.hset(keys.logins(ref), entry.hash, row.replace(/\.\d+/, ''))
    await t.rejects(portal.look(entry), out, `begun ${begun} h ago`)
    t.equal(await redis.hexists(keys.logins(ref), entry.hash), 0, 'and its row is gone')
  }
  const [one, two] = [await enter(), await enter()]
  await portal.leave(one)
  await t.rejects(portal.look(one), out)
  await portal.leave(one)
  t.equal((await portal.look(two)).ref, ref, 'the other one stays')
})

t.test('use keeps a log-in alive', async (t) => {
  const { redis, portal, ref, enter } = await start(t)
  const entry = await enter()
  const [begun, used] = [Date.now() - 20 * 3_600_000, Date.now() - 11 * 3_600_000]
  await redis.hset(keys.logins(ref), entry.hash, `${begun} ${used} link `)
  await portal.look(entry)
  const row = (await redis.hget(keys.logins(ref), entry.hash)) ?? ''
  t.ok(row.startsWith(`${begun} `))
  t.ok(Number(row.split(' ')[1]) > used)
})

t.test('suspension ends log-ins and links for good', async (t) => {
  const { accounts, portal, ref, account, enter } = await start(t)
  const [one, two] = [await enter(), await enter()]
  const { secret } = await portal.makeLink(ref)
  const { secret: unused } = await portal.makeLink(ref)
  await accounts.setAccount(account.id, { status: 'suspended' })
  await t.rejects(portal.look(one), { code: 'account_suspended' })
  await t.rejects(portal.makeLink(ref), { code: 'account_suspended' })
  await t.rejects(portal.open(ref), { code: 'account_suspended' })
  await t.rejects(portal.enter(secret), refused)
  const { secret: second } = await (async () => {
    await accounts.setAccount(account.id, { status: 'active' })
    return portal.makeLink(ref)
  })()
  await t.rejects(portal.look(one), out)
  await t.rejects(portal.look(two), out, 'one that nobody used meanwhile')
  await t.rejects(portal.enter(unused), refused, 'a link that nobody used meanwhile')
  const entered = await portal.enter(second)
  t.equal((await portal.look(entryOf(entered.secret))).accountId, account.id)
})

t.test('an account cannot fill Redis with links or log-ins', async (t) => {
  const { redis, portal, ref, enter } = await start(t)
  const links = []
  for (let i = 0; i < 1000; i++) links.push(await portal.makeLink(ref))
  t.equal(await redis.hlen(keys.portalLinks(ref)), 20)
  await t.rejects(portal.enter(links[0]?.secret ?? ''), refused, 'the oldest went')
  const entries = []
  for (let i = 0; i < 100; i++) entries.push(await enter())
  t.equal(await redis.hlen(keys.logins(ref)), 20)
  const [first] = entries
  if (first) await t.rejects(portal.look(first), out)
  t.equal((await portal.look(entries.at(-1) ?? entryOf(''))).ref, ref)
})

t.test('a Cluster has an account in one slot', async (t) => {
  const cluster = await startCluster(t)
  const link = await connectLink(t, cluster.config)
  const accounts = createAccounts(link.client, { plugins: new Map() })
  const portal = createPortal(link, 20)
  for (const name of ['a', 'b', 'c']) {
    const { ref, account } = await accounts.createAccount({ name })
    const { secret } = await portal.enter((await portal.makeLink(ref)).secret)
    t.equal((await portal.look(entryOf(secret))).accountId, account.id)
    await portal.leave(entryOf(secret))
    await t.rejects(portal.enter('garbage'), refused)
  }
})
