// Allowances and budgets from outside: two gateways on one Redis, customers that race, and what they are told.

import t from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { ask, balanceOf, differencesOf, outputOnly, transactionsOf } from '../fixtures/money.ts'

/** Each answer has as many tokens, and each hold is for them. */
const each = 10

const limits = 'requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: 100000'
const plans = `{ default: { ${limits} }, free: { ${limits}, allowance: { tokens: 70, every: month } } }`

const backend = await startBackend(t, chat({ chunks: each, text: () => ' a' }))
const yaml = `${outputOnly(backend.url, plans)}\nplugins: { metering: { time_zone: Asia/Kathmandu } }`
const first = await startGateway(t, { yaml })
const second = await startGateway(t, { yaml, redis: first.redis })

/** 200 requests at once, at both gateways, by all keys in turn. Returns how many answers there were of each kind. */
async function race(keys: readonly string[]) {
  const asked = backend.requests.length
  const answers = await Promise.all(
    Array.from({ length: 200 }, async (_, i) => {
      const gateway = i % 2 ? first : second
      const answer = await gateway.call('/v1/chat', keys[i % keys.length] ?? '', ask(each, true))
      const text = await answer.text()
      const [, code] = /"code":"(\w+)"/.exec(text) ?? []
      return code ?? String(answer.status)
    }),
  )
  const counts: Record<string, number> = {}
  for (const answer of answers) counts[answer] = (counts[answer] ?? 0) + 1
  return { counts, served: backend.requests.length - asked }
}

t.test('200 requests on an allowance for 7: exactly 7 are served', async (t) => {
  const account = await first.account(0, { plan: 'free' })
  const { counts, served } = await race([account.key])
  t.same(counts, { 200: 7, insufficient_balance: 193 })
  t.equal(served, 7)
  t.match(await balanceOf(second, account), {
    balance: 0,
    available: 0,
    granted: 70,
    allowance: { tokens: 70, every: 'month', left: 0 },
  })
  const transactions = await transactionsOf(first, account)
  t.match(transactions[0], { type: 'allowance', amount: 70, balance_after: 70 })
  t.ok(transactions.slice(1).every((one) => one.allowance === each && one.amount === -each))
  t.same(await differencesOf(first), [])
})

t.test(
  '200 requests by four keys on a budget for 7 of the account: exactly 7 are served',
  async (t) => {
    const account = await first.account(1_000_000, { budget: { tokens: 70, every: 'day' } })
    const more = await Promise.all([1, 2, 3].map(() => first.keyFor(account.id)))
    const { counts, served } = await race([account.key, ...more.map(({ key }) => key)])
    t.same(counts, { 200: 7, budget_exceeded: 193 })
    t.equal(served, 7)
    t.match(await balanceOf(first, account), {
      balance: 999_930,
      available: 0,
      budget: { tokens: 70, every: 'day', used: 70 },
    })
    t.same(await differencesOf(second), [])
  },
)

t.test(
  'a budget of a key refuses with when it is renewed, and no client tries again',
  async (t) => {
    const account = await first.account(1000)
    const budget = { tokens: 15, every: 'week' }
    const { key, id } = await first.keyFor(account.id, { budget })
    const call = () => second.call('/v1/chat', key, ask(each, false))
    t.equal((await call()).status, 200)
    const refused = await call()
    t.equal(refused.status, 402)
    t.equal(refused.headers.get('x-should-retry'), 'false')
    const { error } = (await refused.json()) as { error: Record<string, unknown> }
    t.match(error, { code: 'budget_exceeded', type: 'billing_error', available: 5, needed: 10 })
    const renews = new Date(Number(error['renews_at']) * 1000)
    t.equal(renews.toISOString().slice(11, 16), '18:15', 'midnight in Kathmandu')
    t.equal(renews.getUTCDay(), 0, 'between Sunday and Monday')
    t.match(error['message'], renews.toISOString().slice(0, 16))
    const other = await first.call('/v1/chat', account.key, ask(each, false))
    t.equal(other.status, 200, 'another key of the account may go on')
    const larger = { budget: { tokens: 20, every: 'week' } }
    t.equal((await first.admin('PATCH', `keys/${id}`, larger)).status, 200)
    t.equal((await call()).status, 200)
    t.equal((await call()).status, 402)
    await first.admin('PATCH', `keys/${id}`, { budget: null })
    t.equal((await call()).status, 200)
    t.same(await differencesOf(first), [])
  },
)

t.test('a time zone that there is not stops the start', async (t) => {
  const wrong = yaml.replace('Asia/Kathmandu', 'Europe/Berlim')
  const starting = startGateway(t, { yaml: wrong, redis: first.redis })
  await t.rejects(starting, /there is no such time zone; did you mean .*Europe.Berlin/)
})
