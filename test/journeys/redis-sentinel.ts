// Two gateways on the primary that three Sentinels name: when it hangs under load, what is asked is refused until the next
// one is there, and the money adds up. Every part, and a primary that dies: redis-guarded.ts.

import t from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { accountsFor, breakUnderLoad } from '../fixtures/fail-over.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { outputOnly } from '../fixtures/money.ts'
import { startSentinels } from '../fixtures/redis-sentinel.ts'

const group = await startSentinels(t)
const backend = await startBackend(t, chat({ chunks: 5 }))
const setup = { redisUrl: group.yaml, yaml: outputOnly(backend.url) }
const one = await startGateway(t, setup)
const other = await startGateway(t, setup)

t.test('a primary that hangs under load: 503 until the next one is there', async (t) => {
  await group.healthy()
  const accounts = await accountsFor(one, 8)
  const old = await group.primary()
  const { refusedMs, strange } = await breakUnderLoad(t, {
    gateways: [one, other],
    backend,
    accounts,
    breakIt: async () => void process.kill(old.pid, 'SIGSTOP'),
  })
  t.same(strange, [])
  t.ok(refusedMs.size > 0, 'somebody has noticed')
  t.not(await group.primary(), old)
  t.comment(`refused for ${Math.round(Math.max(...refusedMs.values()))} ms`)
  process.kill(old.pid, 'SIGCONT')
})
