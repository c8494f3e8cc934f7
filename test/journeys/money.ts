// The life of a prepaid account, from the first top-up to the last token, through the admin API and the customer's API
// of one gateway process: every sum that is shown agrees with what the backend counted.

import t from 'tap'
import type { Transaction } from '../../src/ledger/transaction.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { codeOf, spawnGateway } from '../fixtures/gateway.ts'
import {
  Reading,
  ask,
  balanceOf,
  differencesOf,
  outputOnly,
  transactionsOf,
} from '../fixtures/money.ts'

interface Created {
  readonly id: string
  readonly key: string
}

const topup = 100
const answer = 30

t.test('an account is topped up, spends to the last token, is refused, and goes on', async (t) => {
  const backend = await startBackend(t, chat({ chunks: answer }))
  const gateway = await spawnGateway(t, { yaml: outputOnly(backend.url) })
  const admin = async <T>(path: string, body: unknown, headers = {}) => {
    const answer = await gateway.admin('POST', path, body, headers)
    t.ok(answer.ok, path)
    return (await answer.json()) as T
  }
  const { id } = await admin<Created>('accounts', { name: 'Ada' })
  const { key } = await admin<Created>(`accounts/${id}/keys`, { name: 'laptop' })
  const account = { id, key }

  const broke = await gateway.call('/v1/chat/completions', key, ask(answer, true))
  t.equal(await codeOf(broke), 'insufficient_balance')

  const once = { 'idempotency-key': 'invoice-1' }
  const paid = await admin<Transaction>(`accounts/${id}/topup`, { amount: topup }, once)
  const again = await admin<Transaction>(`accounts/${id}/topup`, { amount: topup }, once)
  t.equal(again.id, paid.id, 'paid once')
  t.match(paid, { type: 'topup', amount: topup, balance_after: topup })

  for (const isStream of [true, false, true]) {
    const done = await gateway.call('/v1/chat/completions', key, ask(answer, isStream))
    t.equal(done.status, 200)
    const text = await new Reading(done).end()
    if (isStream) t.match(text, /data: \[DONE\]\n\n$/)
    const shown = await gateway.call('/api/billing/balance', key)
    t.match(await shown.json(), {
      balance: topup - backend.served.completion,
      reserved: 0,
      spent: backend.served.completion,
    })
  }
  t.equal((await balanceOf(gateway, account)).available, topup - 3 * answer)

  const small = await gateway.call('/v1/chat/completions', key, ask(answer, true))
  t.equal(await codeOf(small), 'insufficient_balance', 'fewer than the least output are left')
  const last = await gateway.call('/v1/chat/completions', key, ask(10, true))
  t.match(await new Reading(last).end(), /"finish_reason":"length"[^]*\[DONE\]/)
  t.match(await balanceOf(gateway, account), { balance: 0, reserved: 0, available: 0 })

  await admin(`accounts/${id}/adjust`, { amount: 50, note: 'sorry' })
  const more = await gateway.call('/v1/chat/completions', key, ask(answer, false))
  t.equal(more.status, 200)
  await more.text()
  const tooMuch = { amount: -21, note: 'more than there is' }
  const refused = await gateway.admin('POST', `accounts/${id}/adjust`, tooMuch)
  t.equal(refused.status, 409)
  t.equal(await codeOf(refused), 'insufficient_balance')

  const entries = await transactionsOf(gateway, account)
  t.same(
    entries.map(({ type, amount, balance_after }) => [type, amount, balance_after]),
    [
      ['topup', 100, 100],
      ['charge', -30, 70],
      ['charge', -30, 40],
      ['charge', -30, 10],
      ['charge', -10, 0],
      ['adjustment', 50, 50],
      ['charge', -30, 20],
    ],
  )
  const { granted, spent } = await balanceOf(gateway, account)
  t.same({ granted, spent }, { granted: topup + 50, spent: backend.served.completion })
  t.same(await differencesOf(gateway), [])
  t.same(await (await gateway.admin('GET', 'audit')).json(), {
    object: 'audit',
    accounts: 1,
    entries: entries.length,
    differences: [],
    difference_count: 0,
    late: 0,
  })
})

t.test('a restart changes no sum', async (t) => {
  const backend = await startBackend(t, chat({ chunks: answer }))
  const yaml = outputOnly(backend.url)
  const gateway = await spawnGateway(t, { yaml })
  const account = await gateway.account(topup)
  await (await gateway.call('/v1/chat', account.key, ask(answer, true))).text()
  const before = await transactionsOf(gateway, account)
  t.equal(await gateway.stop(), 0)
  const { redis, dataDir } = gateway
  const next = await spawnGateway(t, { yaml, redis, dataDir })
  t.same(await transactionsOf(next, account), before)
  t.match(await balanceOf(next, account), { balance: topup - answer, reserved: 0 })
  t.same(await differencesOf(next), [])
})
