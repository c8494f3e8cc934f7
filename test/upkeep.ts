import t from 'tap'
import { isOpen } from '../src/upkeep.ts'
import { startGateway } from './fixtures/gateway.ts'

const yaml = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\n"

t.test('gauges are right from the first scrape on', async (t) => {
  const { adminUrl, gateway } = await startGateway(t, { yaml })
  const text = await (await fetch(`${adminUrl}/metrics`)).text()
  t.match(text, '\ntollgate_redis_up 1\n')
  t.equal(isOpen(gateway), true)
  gateway.state.draining = true
  t.equal(isOpen(gateway), false)
})
