import t from 'tap'
import type { Test } from 'tap'
import { ensureDemo } from '../../src/demo/account.ts'
import { startGateway } from '../fixtures/gateway.ts'
import type { GatewaySetup } from '../fixtures/gateway.ts'
import { redisServerPath } from '../fixtures/redis-server.ts'

// The product would search again for each gateway, and on a bare machine download it each time.
process.env['REDIS_SERVER'] ??= await redisServerPath()

const demo = 'models: { toy: { targets: [demo] } }'
const real = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"

const start = (t: Test, setup: Partial<GatewaySetup> = {}) =>
  startGateway(t, { yaml: demo, redisUrl: 'embedded', ...setup })

async function accountsOf({ gateway }: Awaited<ReturnType<typeof start>>) {
  return (await gateway.accounts.listAccounts({ limit: 10, order: 'asc' })).data
}

t.test('the first start makes an account with a million tokens and a key that works', async (t) => {
  const one = await start(t)
  const made = await ensureDemo(one.gateway)
  t.equal(made?.model, 'toy')
  t.match(await accountsOf(one), [{ name: 'demo' }])
  const key = made?.key ?? ''
  const balance = await one.call('/api/billing/balance', key)
  t.match(await balance.json(), { granted: 1_000_000, available: 1_000_000 })
  const messages = [{ role: 'user', content: 'Hi' }]
  t.equal((await one.call('/v1/chat', key, { model: 'toy', messages })).status, 200)
})

t.test('the second start makes nothing, nor does one that finds other accounts', async (t) => {
  const first = await start(t)
  t.ok(await ensureDemo(first.gateway))
  t.equal(await ensureDemo(first.gateway), undefined)
  await first.close()
  const second = await start(t, { dataDir: first.dataDir })
  t.equal(await ensureDemo(second.gateway), undefined)
  t.equal((await accountsOf(second)).length, 1)

  const other = await start(t)
  await other.account(0)
  t.equal(await ensureDemo(other.gateway), undefined)
})

t.test('beside a Redis that is not its own, it makes no account', async (t) => {
  const one = await startGateway(t, { yaml: demo })
  t.equal(await ensureDemo(one.gateway), undefined)
  t.same(await accountsOf(one), [])
})

t.test('without the built-in model, it makes no account', async (t) => {
  const one = await start(t, { yaml: real })
  t.equal(await ensureDemo(one.gateway), undefined)
  t.same(await accountsOf(one), [])
})
