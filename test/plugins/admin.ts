import t from 'tap'
import { refusal, startAdmin } from '../fixtures/admin-listener.ts'

t.test('with Redis away the answer is 503 ledger_unavailable', async (t) => {
  const { call, redis } = await startAdmin(t)
  await redis.stop()
  const refused = { status: 503, body: refusal('ledger_unavailable') }
  t.match(await call('GET accounts'), refused)
  t.match(await call('POST accounts', { name: 'a' }), refused)
  t.match(await call('GET audit'), refused)
})
