import t from 'tap'
import { startPortal } from '../../fixtures/account-page.ts'
import { ask } from '../../fixtures/money.ts'

t.test('the page shows what the billing API shows', async (t) => {
  const gateway = await startPortal(t)
  const { id, key } = await gateway.account(10_000)
  const { call, cookie } = await gateway.enter(id)
  await (await gateway.call('/v1/chat', key, { ...ask(3, false), model: 'm' })).text()
  for (const path of ['transactions?format=csv&type=charge', 'usage?format=csv&group_by=key']) {
    const answer = await gateway.page(`/account/api/${path}`, { headers: { cookie } })
    const expected = await (await gateway.call(`/api/billing/${path}`, key)).text()
    t.equal(await answer.text(), expected, path)
    t.equal(expected.trim().split('\r\n').length, 2, expected)
    t.ok(expected.includes(`,${id},`))
  }
  for (const path of [
    'balance',
    'transactions',
    'transactions?limit=1&order=asc',
    'transactions?type=topup',
    'usage?group_by=model',
  ]) {
    const expected = (await (await gateway.call(`/api/billing/${path}`, key)).json()) as object
    const { status, body } = await call(`GET ${path}`)
    t.equal(status, 200)
    t.strictSame({ ...body, updated_at: 0 }, { ...expected, updated_at: 0 }, path)
  }
  const other = await gateway.enter((await gateway.account(5)).id)
  t.match((await other.call('GET balance')).body, { available: 5 })
  t.strictSame((await other.call('GET usage')).body.data, [])
})

t.test('limits: what the plan allows, and how much of it is used', async (t) => {
  const gateway = await startPortal(t, { account: '{ max_keys: 7 }' })
  const { id, key } = await gateway.account(10_000, { plan: 'small' })
  const { call } = await gateway.enter(id)
  t.match((await call('GET limits')).body, {
    object: 'account.limits',
    plan: 'small',
    models: ['m'],
    requests_per_minute: { limit: 5, used: 0 },
    tokens_per_minute: { limit: 400_000, used: 0 },
    concurrency: { limit: 20, used: 0 },
    storage: { limit: 10 * 2 ** 30, used: 0 },
    keys: { limit: 7, used: 1 },
  })
  await (await gateway.call('/v1/chat', key, { ...ask(3, false), model: 'm' })).text()
  await gateway.call('/api/chat/sessions', key, { instructions: 'x'.repeat(1000) })
  const { body } = await call('GET limits')
  const used = (name: string) => (body[name] as { used: number }).used
  t.equal(used('requests_per_minute'), 1)
  t.ok(used('tokens_per_minute') > 0)
  t.ok(used('storage') > 1000)
  t.ok(Number(body['resets_at']) * 1000 > Date.now() - 60_000)
})
