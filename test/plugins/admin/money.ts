import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { refusal, startAdmin } from '../../fixtures/admin-listener.ts'
import { parseCsv } from '../../fixtures/csv.ts'
import { adminToken, send, startGateway } from '../../fixtures/gateway.ts'
import { connectLink, makeHold, newHoldId, used } from '../../fixtures/ledger.ts'
import { until } from '../../fixtures/until.ts'

t.test('money: topped up, adjusted, never below zero, in the journal, audited', async (t) => {
  const { call } = await startAdmin(t)
  const { body: account } = await call('POST accounts', { name: 'a' })
  const topup = await call('POST accounts/a/topup', { amount: 1000, note: 'invoice 7' })
  t.equal(topup.status, 200)
  const transaction = {
    object: 'billing.transaction',
    type: 'topup',
    amount: 1000,
    note: 'invoice 7',
  }
  t.match(topup.body, { ...transaction, id: /^txn_/, balance_after: 1000 })
  t.match((await call('POST accounts/a/adjust', { amount: -400, note: 'oops' })).body, {
    balance_after: 600,
  })
  const tooMuch = await call('POST accounts/a/adjust', { amount: -601, note: 'oops' })
  t.match(tooMuch, { status: 409, body: refusal('insufficient_balance') })
  t.match(tooMuch.body, { error: { type: 'conflict_error', available: 600 } })
  t.match((await call('GET accounts/a/balance')).body, {
    object: 'billing.balance',
    available: 600,
  })
  t.match((await call('GET accounts/a/transactions')).body.data, [
    { amount: -400 },
    { amount: 1000 },
  ])
  t.match((await call('GET accounts/a/usage')).body, { object: 'list', data: [] })
  t.match(await call('GET accounts/a/transactions?after=foo'), { status: 400 })
  t.match((await call('GET audit')).body, { object: 'audit', accounts: 1, differences: [] })
  t.match((await call(`GET audit?account=${account.id}`)).body, { accounts: 1, entries: 2 })
  t.match(await call('GET audit?account=nobody'), { status: 404 })
  t.match(await call('GET audit?account=a&account=b'), { status: 400 })
})

t.test('one Idempotency-Key on a top-up and an adjustment: each is made, once', async (t) => {
  const { call } = await startAdmin(t)
  await call('POST accounts', { name: 'a' })
  const headers = { 'idempotency-key': 'invoice-7' }
  for (const replayed of [null, 'true']) {
    const topup = await call('POST accounts/a/topup', { amount: 1000 }, headers)
    t.match(topup, { status: 200, body: { amount: 1000 } })
    const adjusted = await call('POST accounts/a/adjust', { amount: -5, note: 'n' }, headers)
    t.match(adjusted, { status: 200, body: { amount: -5 } })
    for (const { headers } of [topup, adjusted]) {
      t.equal(headers.get('idempotent-replayed'), replayed)
    }
  }
  t.match((await call('GET accounts/a/balance')).body, { available: 995 })
  t.match((await call('GET accounts/a/transactions')).body.data, [{ amount: -5 }, { amount: 1000 }])
  const malformed = { status: 400, body: refusal('invalid_parameter', 'after') }
  t.match(await call('GET accounts/a/transactions?after=nonsense'), malformed)
})

t.test('a top-up with one Idempotency-Key is made once, another body is refused', async (t) => {
  const { call } = await startAdmin(t)
  await call('POST accounts', { name: 'a' })
  const headers = { 'idempotency-key': 'k-1' }
  const first = await call('POST accounts/a/topup', { amount: 5 }, headers)
  const again = await call('POST accounts/a/topup', { amount: 5 }, headers)
  t.strictSame(again.body, first.body)
  t.equal(first.headers.get('idempotent-replayed'), null)
  t.equal(again.headers.get('idempotent-replayed'), 'true')
  const reused = { status: 422, body: refusal('idempotency_key_reused') }
  t.match(await call('POST accounts/a/topup', { amount: 6 }, headers), reused)
  t.match((await call('GET accounts/a/balance')).body, { available: 5 })
  await call('POST accounts/a/topup', { amount: 5 })
  t.match((await call('GET accounts/a/balance')).body, { available: 10 })
  const malformed = await call('POST accounts/a/topup', { amount: 5 }, { 'idempotency-key': 'a b' })
  t.match(malformed, { status: 400, body: refusal('invalid_parameter', 'Idempotency-Key') })
})

t.test('a payment is topped up once, and found by its reference', async (t) => {
  const { call } = await startAdmin(t)
  await call('POST accounts', { name: 'a' })
  const pay = (body: object) =>
    call('POST accounts/a/topup', { amount: 5, reference: 'pi_1', ...body })
  const first = await pay({ note: 'webhook' })
  t.match(first, { status: 200, body: { type: 'topup', reference: 'pi_1' } })
  t.equal(first.headers.get('idempotent-replayed'), null)
  const again = await pay({ note: 'again' })
  t.strictSame(again.body, first.body)
  t.equal(again.headers.get('idempotent-replayed'), 'true')
  t.match(await pay({ amount: 6 }), { status: 422, body: refusal('reference_reused', 'reference') })
  for (const reference of ['', 'a b', 'x'.repeat(256), 7])
    t.match(await pay({ reference }), {
      status: 400,
      body: refusal('invalid_parameter', 'reference'),
    })
  t.match((await call('GET accounts/a/balance')).body, { granted: 5 })
  const { body } = await call('GET accounts/a/transactions?reference=pi_1')
  t.strictSame(body.data, [first.body])
})

t.test('a refund is an adjustment of its own type', async (t) => {
  const { call, accounts, ledger } = await startAdmin(t)
  await call('POST accounts', { name: 'a' })
  await call('POST accounts/a/topup', { amount: 100 })
  const { ref } = await accounts.getAccount('a')
  await ledger.settle(makeHold({ id: newHoldId(), ref }), used(30))
  const refund = (amount: number) =>
    call('POST accounts/a/adjust', { amount, note: 'sorry', type: 'refund' })
  t.match(await refund(20), { status: 200, body: { type: 'refund', amount: 20, note: 'sorry' } })
  t.match(await refund(11), { status: 400, body: refusal('invalid_parameter', 'amount') })
  const odd = await call('POST accounts/a/adjust', { amount: 1, note: 'n', type: 'topup' })
  t.match(odd, { status: 400, body: refusal('invalid_parameter', 'type') })
  t.match((await call('GET accounts/a/balance')).body, { granted: 100, spent: 10, balance: 90 })
  t.match((await call('GET audit')).body, { differences: [] })
})

t.test('books as CSV, of one account and of all', async (t) => {
  const { call, url, accounts, ledger } = await startAdmin(t)
  const { body: account } = await call('POST accounts', { name: 'a' })
  await call('POST accounts/a/topup', { amount: 100 })
  const { ref } = await accounts.getAccount('a')
  await ledger.settle(makeHold({ id: newHoldId(), ref, keyId: 'key_1' }), used(30))
  const csv = async (path: string) => {
    const answer = await send(`${url}/admin/${path}`, { token: adminToken })
    t.match(answer.headers.get('content-type'), /^text\/csv/)
    const [titles = [], ...rows] = await parseCsv(await answer.text())
    return rows.map((row) => Object.fromEntries(titles.map((title, i) => [title, row[i]])))
  }
  const row = { account_id: account.id }
  t.match(await csv('accounts/a/transactions?format=csv'), [
    { ...row, type: 'topup', amount: '100' },
    { ...row, type: 'charge', amount: '-30' },
  ])
  t.match(await csv('accounts/a/usage?format=csv'), [{ ...row, cost: '30' }])
  t.match(await csv('usage?format=csv&group_by=key'), [{ ...row, key_id: 'key_1', cost: '30' }])
  t.match(await csv('usage?format=csv'), [{ account_id: '', cost: '30' }])
  t.match((await call('GET usage?group_by=account')).body, { data: [{ ...row, cost: 30 }] })
  t.match(await call('GET usage?group_by=account&after=x'), { status: 400 })
  t.match(await call('GET usage?limit=1'), {
    status: 400,
    body: refusal('invalid_parameter', 'limit'),
  })
})

t.test('the operator does not wait for a customer who asks for a thousand lists', async (t) => {
  const { call, accounts, ledger } = await startAdmin(t)
  await call('POST accounts', { name: 'a' })
  const { ref } = await accounts.getAccount('a')
  const hours = { from: 0, to: 36_000, bucket: 'hour' } as const
  for (const [path, read] of [
    ['usage', () => ledger.usage(ref, hours)],
    ['keys', () => accounts.listKeys(ref)],
  ] as const) {
    let ended = 0
    const lists = Array.from({ length: 1000 }, () => read().then(() => ended++))
    t.equal((await call(`GET accounts/a/${path}`)).status, 200)
    t.ok(ended < 1000, `${path}: ${ended} came before`)
    await Promise.all(lists)
  }
})

t.test('a credit whose account Redis has lost is noted with the id of the account', async (t) => {
  const yaml = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"
  const gateway = await startGateway(t, { yaml })
  const { id } = await gateway.account(700)
  const { client } = await connectLink(t, gateway.redis.socket)
  await client.flushall()
  // Connected again, the gateway sends the credit again.
  await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  const file = join(gateway.dataDir, 'spool/late.ndjson')
  const late = () => readFile(file, 'utf8').catch(() => '')
  await until(async () => (await late()).endsWith('\n'))
  t.match(JSON.parse(await late()), { kind: 'credit', accountId: id, amount: 700 })
})
