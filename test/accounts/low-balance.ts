// src/accounts/low-balance.ts, and where it is told: on what asks a model, on the balance, in a metric; and not elsewhere.

import t from 'tap'
import { isLow, lowBalanceHeaders } from '../../src/accounts/low-balance.ts'
import { chat } from '../fixtures/backend-model.ts'
import { startBackend } from '../fixtures/backend.ts'
import { codeOf, startGateway } from '../fixtures/gateway.ts'
import { ask, balanceOf, outputOnly } from '../fixtures/money.ts'
import { until } from '../fixtures/until.ts'

const backend = await startBackend(t, chat({ chunks: 5 }))
const yaml = `${outputOnly(backend.url)}\nplugins: { account: { low_balance: 100 }, cors: { origins: ['*'] } }\n`
const header = 'x-tollgate-balance-low'

t.test('nobody is low by default, and whoever has the number is not', async (t) => {
  t.equal(isLow({ plugins: new Map() }, 0), false)
  const plugins = new Map([['account', { low_balance: 100 }]])
  t.strictSame(lowBalanceHeaders({ plugins }, 100), {})
  t.strictSame(lowBalanceHeaders({ plugins }, 99), { [header]: '99' })
})

t.test('answers say what is left, streamed or not, refused or not', async (t) => {
  const gateway = await startGateway(t, { yaml })
  const account = await gateway.account(104)
  const said = async (path: string, body?: unknown) => {
    const answer = await gateway.call(path, account.key, body)
    const low = answer.headers.get(header)
    return [low, answer.ok ? await answer.text().then(() => '') : await codeOf(answer)]
  }
  // Its own hold does not make an account low.
  t.strictSame(await said('/v1/chat', ask(50, false)), [null, ''])
  t.strictSame(await said('/v1/chat', ask(50, false)), ['99', ''])
  t.strictSame(await said('/api/billing/balance'), ['94', ''])
  t.strictSame(await said('/v1/chat/completions', ask(50, true)), ['94', ''])
  await until(async () => (await balanceOf(gateway, account)).reserved === 0)
  t.strictSame(await said('/v1/chat', { ...ask(5000, false), n: 8 }), [
    '89',
    'insufficient_balance',
  ])
  for (const path of ['/v1/models', '/api/billing/transactions', '/api/chat/sessions']) {
    t.strictSame(await said(path), [null, ''], path)
  }
  const session = await gateway.call('/api/chat/sessions', account.key, {})
  const { id } = (await session.json()) as { id: string }
  const path = `/api/chat/sessions/${id}/messages`
  t.strictSame(await said(path, { content: 'Hi', model: 'm', max_tokens: 5 }), ['89', ''])
})

t.test('pages of other origins may read it', async (t) => {
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(5)
  const headers = { authorization: `Bearer ${key}`, origin: 'https://app.example.com' }
  const answer = await fetch(`${gateway.url}/api/billing/balance`, { headers })
  t.match(answer.headers.get('access-control-expose-headers'), header)
  t.equal(answer.headers.get(header), '5')
})

t.test('the metric counts active accounts that are low, from the start on', async (t) => {
  const first = await startGateway(t, { yaml })
  await first.account(100)
  for (const tokens of [0, 99]) await first.account(tokens)
  const { id } = await first.account(0)
  await first.admin('PATCH', `accounts/${id}`, { status: 'suspended' })
  const { id: gone } = await first.account(0)
  await first.admin('DELETE', `accounts/${gone}`)
  const next = await startGateway(t, { yaml, redis: first.redis })
  const scrape = async () => (await fetch(`${next.adminUrl}/metrics`)).text()
  await until(async () => /^tollgate_accounts_low 2$/m.test(await scrape()))
})
