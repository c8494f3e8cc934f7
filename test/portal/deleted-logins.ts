// Who has an account deleted and comes back: what a thief would gain by it, and what stays known of anybody.

import t from 'tap'
import type { Test } from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { browserOf } from '../fixtures/account-page.ts'
import { differencesOf } from '../fixtures/money.ts'
import { startOidc } from '../fixtures/oidc-page.ts'
import type { Person } from '../fixtures/oidc-page.ts'
import { keysOf } from '../fixtures/files-left.ts'

type World = Awaited<ReturnType<typeof start>>

function start(t: Test, more = '') {
  return startOidc(t, `plan: given, starting_balance: 500${more}`, {
    plans: 'given: { allowance: { tokens: 300, every: month } }',
  })
}

/** Logs in, and says what there is. */
async function comeTo(t: Test, page: World) {
  const one = page.person()
  t.equal(await one.login(), '/account')
  return { ...(await moneyOf(page, one)), id: (await page.me(one)).id }
}

async function moneyOf(page: World, { cookie }: Person) {
  const { body } = await browserOf(page, cookie).call('GET balance')
  return { granted: body['granted'], left: (body['allowance'] as { left: number } | null)?.left }
}

async function erase(t: Test, page: World, id: string) {
  t.equal((await page.admin('DELETE', `accounts/${id}?forfeit=true`)).status, 200)
}

async function marksOf({ gateway }: World) {
  const found = await keysOf(gateway.redis.client)
  return found.filter((key) => key.startsWith(keys.deletedLogin('')))
}

t.test('deleted, and logged in again: no second starting balance or allowance', async (t) => {
  const page = await start(t)
  const first = await comeTo(t, page)
  t.match(first, { granted: 800, left: 300 })
  for (let round = 0; round < 3; round++) {
    const { id } = await comeTo(t, page)
    await erase(t, page, id)
    const again = await comeTo(t, page)
    t.not(again.id, id, 'a new account')
    t.match(again, { granted: 0, left: 0 })
    t.match(await comeTo(t, page), { granted: 0, left: 0 }, 'nor does the next log-in bring it')
  }
  t.strictSame(await differencesOf(page), [])
})

t.test(
  'twenty log-ins at once, while the account is deleted: nothing is given twice',
  async (t) => {
    const page = await start(t)
    const { id } = await comeTo(t, page)
    const people = Array.from({ length: 20 }, () => page.person())
    const coming = people.map(async (one) => await one.login())
    await Promise.all([...coming, erase(t, page, id)])
    t.match(await comeTo(t, page), { granted: 0, left: 0 })
  },
)

t.test('others are given theirs', async (t) => {
  const page = await start(t)
  const { id } = await comeTo(t, page)
  await erase(t, page, id)
  page.provider.person = { sub: 'two' }
  t.match(await comeTo(t, page), { granted: 800, left: 300 })
})

t.test('the allowance comes back with its next window', async (t) => {
  const page = await start(t)
  const { id } = await comeTo(t, page)
  const { client } = page.gateway.redis
  const [account = ''] = (await keysOf(client)).filter((key) => key.endsWith(':account'))
  await client.hset(account, 'allowance', '300 0 1 given')
  await erase(t, page, id)
  t.match(await comeTo(t, page), { granted: 300, left: 300 })
})

t.test('what is kept names nobody, and ends by itself', async (t) => {
  const page = await start(t, ', remember_deleted: 48h')
  const { id } = await comeTo(t, page)
  const { client } = page.gateway.redis
  await erase(t, page, id)
  const marks = await marksOf(page)
  t.equal(marks.length, 1)
  const [mark = ''] = marks
  t.match(mark, /:[\w-]{43}$/)
  const life = await client.pttl(mark)
  t.ok(life > 47 * 3_600_000 && life <= 48 * 3_600_000, String(life))
  t.notMatch(await client.get(mark), new RegExp(`one|127|acct_|${id}`))
})

t.test('an operator who wants nothing kept gives again', async (t) => {
  const page = await start(t, ', remember_deleted: 0s')
  const { id } = await comeTo(t, page)
  await erase(t, page, id)
  t.strictSame(await marksOf(page), [])
  t.match(await comeTo(t, page), { granted: 800, left: 300 })
})

t.test('accounts that no log-in can reach leave nothing behind', async (t) => {
  const page = await start(t)
  const made = await page.admin('POST', 'accounts', { name: 'own', external_id: 'cus_1' })
  const { id } = (await made.json()) as { id: string }
  await erase(t, page, id)
  t.strictSame(await marksOf(page), [])
})
