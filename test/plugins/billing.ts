// What customers see of their own money: balance, transactions page by page, usage by model and by key.

import t from 'tap'
import type { Test } from 'tap'
import { parseKey } from '../../src/accounts/api-key.ts'
import { newId } from '../../src/ids.ts'
import type { List } from '../../src/http/page.ts'
import type { Transaction } from '../../src/ledger/transaction.ts'
import type { UsageRow } from '../../src/ledger/usage.ts'
import { keys } from '../../src/redis/keys.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { codeOf, refusedWith, startGateway } from '../fixtures/gateway.ts'
import { parseCsv } from '../fixtures/csv.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { ask } from '../fixtures/money.ts'

async function start(t: Test) {
  const backend = await startBackend(t, chat())
  const target = `targets: [{ url: '${backend.url}' }]`
  const yaml = `models: { m: { ${target} }, other: { ${target} } }`
  const gateway = await startGateway(t, { yaml })
  const account = await gateway.account(10_000)
  const generate = async (tokens: number, model = 'm', key = account.key) => {
    const answer = await gateway.call('/v1/chat', key, { ...ask(tokens, false), model })
    return ((await answer.json()) as { usage: { total_tokens: number } }).usage.total_tokens
  }
  const get = async <T>(path: string, key = account.key) =>
    (await (await gateway.call(`/api/billing/${path}`, key)).json()) as T
  return { gateway, account, generate, get }
}

t.test('the balance is the current one, on both mounts', async (t) => {
  const { gateway, account, generate, get } = await start(t)
  const used = await generate(3)
  const expected = {
    object: 'billing.balance',
    unit: 'token',
    balance: 10_000 - used,
    reserved: 0,
    available: 10_000 - used,
    granted: 10_000,
    spent: used,
  }
  t.match(await get('balance'), expected)
  const mounted = await gateway.call('/v1/api/billing/balance', account.key)
  t.equal(mounted.headers.get('cache-control'), 'no-store')
  t.match(await mounted.json(), expected)
})

t.test('the balance has the budget of the key that asks, also after it was replaced', async (t) => {
  const { gateway, account, generate, get } = await start(t)
  const budget = { tokens: 4000, every: 'month' }
  const make = async () => {
    const made = await gateway.admin('POST', `accounts/${account.id}/keys`, { budget })
    return (await made.json()) as { id: string; key: string }
  }
  const key = await make()
  t.match(await get('balance', key.key), {
    available: 4000,
    budget: null,
    key_budget: { ...budget, used: 0, renews_at: null },
  })
  const used = await generate(3, 'm', key.key)
  const expected = {
    balance: 10_000 - used,
    available: 4000 - used,
    key_budget: { ...budget, used },
  }
  t.match(await get('balance', key.key), expected)
  const rotated = await gateway.admin('POST', `keys/${key.id}/rotate`, { grace: 60 })
  const next = (await rotated.json()) as { key: string }
  t.match(await get('balance', next.key), expected)
  t.match(await get('balance'), { available: 10_000 - used, key_budget: null })
  const shown = await gateway.admin('GET', `accounts/${account.id}/balance`)
  t.match(await shown.json(), { available: 10_000 - used, key_budget: null })
})

t.test('transactions are listed newest first, in pages, with the balance after each', async (t) => {
  const { generate, get } = await start(t)
  const used = [await generate(1), await generate(2), await generate(3)]
  const all = await get<List<Transaction>>('transactions')
  t.equal(all.has_more, false)
  t.same(
    all.data.map(({ type, amount }) => [type, amount]),
    [...used.toReversed().map((tokens) => ['charge', -tokens]), ['topup', 10_000]],
  )
  let balance = 0
  for (const { amount, balance_after } of all.data.toReversed()) {
    balance += amount
    t.equal(balance_after, balance)
  }
  const page = await get<List<Transaction>>(`transactions?limit=2&after=${all.data[0]?.id}`)
  t.same(page.data, all.data.slice(1, 3))
  t.equal(page.has_more, true)
  const oldest = await get<List<Transaction>>('transactions?order=asc&limit=1')
  t.match(oldest.data, [{ type: 'topup' }])
  t.match(all.data[0]?.request_id, /^req_/)
})

t.test('usage sums what was charged, by model and by key', async (t) => {
  const { gateway, account, generate, get } = await start(t)
  const second = await gateway.keyFor(account.id)
  const one = (await generate(1)) + (await generate(2))
  const two = await generate(3, 'other', second.key)
  const costs = async (path: string, by: 'model' | 'key_id') => {
    const { data } = await get<List<UsageRow>>(path)
    const sums: Record<string, number> = {}
    for (const row of data) sums[row[by] ?? ''] = (sums[row[by] ?? ''] ?? 0) + row.cost
    return sums
  }
  t.same(await costs('usage?group_by=model', 'model'), { m: one, other: two })
  t.equal((await costs('usage?group_by=key&bucket=day', 'key_id'))[second.id], two)
  t.same(await costs('usage', 'model'), { '': one + two })
})

t.test('an invalid query is refused with its name', async (t) => {
  const { gateway, account } = await start(t)
  for (const query of [
    'transactions?limit=0',
    'transactions?after=foo',
    `transactions?after=${newId('msg')}`,
    'usage?bucket=week',
  ]) {
    const answer = await gateway.call(`/api/billing/${query}`, account.key)
    t.equal(answer.status, 400, query)
    t.equal(await codeOf(answer), 'invalid_parameter', query)
  }
})

t.test('a key without the scope is refused, and no key sees another account', async (t) => {
  const { gateway, account, generate, get } = await start(t)
  await generate(3)
  const { key } = await gateway.keyFor(account.id, { scopes: ['chat'] })
  const refused = await gateway.call('/api/billing/balance', key)
  t.same(await refusedWith(refused), [403, 'insufficient_scope'])
  const stranger = await gateway.account(0)
  t.match(await get('balance', stranger.key), { balance: 0, spent: 0 })
  t.match(await get('transactions', stranger.key), { data: [], has_more: false })
  t.match(await get('usage', stranger.key), { data: [] })
})

t.test('transactions say what was applied, and are found by what they say', async (t) => {
  const { gateway, account, generate, get } = await start(t)
  const second = await gateway.keyFor(account.id)
  await generate(1)
  await generate(2, 'other')
  await generate(3, 'm', second.key)
  const find = async (query: string) => (await get<List<Transaction>>(`transactions?${query}`)).data
  const [newest] = await find('limit=1')
  const { usage } = newest ?? {}
  t.match(newest, {
    type: 'charge',
    key_id: second.id,
    price: { input: 1, output: 1, cached_input: 1, request: 0 },
    usage: { completion_tokens: 3, cached_tokens: 0 },
  })
  t.equal(newest?.amount, -((usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0)))
  t.same(await find(`key=${second.id}`), [newest])
  t.match(await find('model=other'), [{ model: 'other', usage: { completion_tokens: 2 } }])
  t.match(await find('type=topup'), [{ amount: 10_000 }])
  t.same(await find(`from=${(newest?.created_at ?? 0) + 1}`), [])
  t.equal((await find(`to=${(newest?.created_at ?? 0) + 1}&model=m`)).length, 2)
  const usageOf = async (query: string) => (await get<List<UsageRow>>(`usage?${query}`)).data
  t.match(await usageOf(`key=${second.id}&bucket=day`), [{ requests: 1, cached_tokens: 0 }])
  for (const query of ['type=gift', 'key=x', 'reference=%20', 'from=2&to=1', 'format=xml']) {
    const refused = await gateway.call(`/api/billing/transactions?${query}`, account.key)
    t.same(await refusedWith(refused), [400, 'invalid_parameter'], query)
  }
})

t.test('CSV of transactions and usage, for the account alone', async (t) => {
  const { gateway, account, generate } = await start(t)
  await generate(2)
  const other = await gateway.account(5)
  const csv = async (path: string, key = account.key) => {
    const answer = await gateway.call(`/api/billing/${path}format=csv`, key)
    t.match(answer.headers.get('content-type'), /^text\/csv; charset=utf-8/)
    t.match(answer.headers.get('content-disposition'), /^attachment; filename="\w+\.csv"$/)
    t.equal(answer.headers.get('cache-control'), 'no-store')
    const [titles = [], ...rows] = await parseCsv(await answer.text())
    return rows.map((row) => Object.fromEntries(titles.map((title, i) => [title, row[i]])))
  }
  t.match(await csv('transactions?'), [
    { type: 'topup', amount: '10000', account_id: account.id },
    { type: 'charge', completion_tokens: '2', price_output: '1', account_id: account.id },
  ])
  t.match(await csv('transactions?type=topup&', other.key), [{ amount: '5', account_id: other.id }])
  t.match(await csv('usage?group_by=model&'), [{ model: 'm', completion_tokens: '2' }])
  const headers = { authorization: `Bearer ${account.key}` }
  const path = `${gateway.url}/api/billing/transactions?format=csv`
  const head = await fetch(path, { method: 'HEAD', headers })
  t.same([head.status, await head.text()], [200, ''])
})

t.test('a third CSV at once is 429, says so, and when to ask again', async (t) => {
  const { gateway, account } = await start(t)
  const { client } = await connectLink(t, gateway.redis.socket)
  const journal = keys.journal(parseKey(account.key)?.ref ?? '')
  // More than the sockets take before somebody reads.
  const note = 'n'.repeat(4000)
  const entry = { type: 'topup', amount: '0', balance: '0', meta: JSON.stringify({ note }) }
  for (let i = 0; i < 16; i++) {
    const pipeline = client.pipeline()
    for (let j = 0; j < 500; j++) pipeline.xadd(journal, '*', ...Object.entries(entry).flat())
    await pipeline.exec()
  }
  const path = '/api/billing/transactions?format=csv'
  const running = [await gateway.call(path, account.key), await gateway.call(path, account.key)]
  const refused = await gateway.call(path, account.key)
  t.equal(refused.status, 429)
  t.equal(refused.headers.get('retry-after'), '1')
  t.equal(refused.headers.get('content-disposition'), null)
  t.match(await refused.json(), {
    error: {
      code: 'concurrency_limit_exceeded',
      message: 'You have 2 CSV exports running, and no more may run now. Wait for one to end.',
    },
  })
  for (const answer of running) {
    t.equal(answer.status, 200)
    t.equal((await parseCsv(await answer.text())).length, 8002)
  }
  t.equal((await gateway.call(path, account.key)).status, 200)
})
