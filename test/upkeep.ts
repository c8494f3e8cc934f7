import t from 'tap'
import { conditionOf } from '../src/upkeep.ts'
import { startGateway } from './fixtures/gateway.ts'
import { metricOf } from './fixtures/metric.ts'
import { until } from './fixtures/until.ts'

const yaml = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\n"

t.test('what all accounts have is read at the start', async (t) => {
  const first = await startGateway(t, { yaml })
  await first.account(30)
  await first.account(12)
  const second = await startGateway(t, { yaml, redis: first.redis })
  await until(async () => (await metricOf(second, 'tollgate_balance_tokens ')) === 42)
})

t.test('gauges are right from the first scrape on', async (t) => {
  const { adminUrl, gateway } = await startGateway(t, { yaml })
  const text = await (await fetch(`${adminUrl}/metrics`)).text()
  t.match(text, '\ntollgate_redis_up 1\n')
  t.same(conditionOf(gateway), { isReady: true, redis: 'ok', ledger: 'ok', spool: 'ok' })
  gateway.state.draining = true
  t.match(conditionOf(gateway), { isReady: false })
})
