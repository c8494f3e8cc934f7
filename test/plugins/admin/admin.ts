import t from 'tap'
import { refusal, startAdmin } from '../../fixtures/admin-listener.ts'

t.test('with Redis away the answer is 503 ledger_unavailable', async (t) => {
  const { call, redis } = await startAdmin(t)
  await redis.stop()
  const refused = { status: 503, body: refusal('ledger_unavailable') }
  t.match(await call('GET accounts'), refused)
  t.match(await call('POST accounts', { name: 'a' }), refused)
  t.match(await call('GET audit'), refused)
})

t.test('wrong tokens turn into 429, and never a request with the right one', async (t) => {
  const { call } = await startAdmin(t, { failuresPerMinute: 3 })
  const codes: unknown[] = []
  const guess = async (authorization: string) => {
    const { status, headers, body } = await call('GET accounts', undefined, { authorization })
    codes.push((body.error as { code: string }).code)
    return { status, headers }
  }
  for (let i = 0; i < 3; i++) await guess('Bearer wrong')
  const { status, headers } = await guess('Bearer wrong')
  t.same(codes, [...Array<string>(3).fill('invalid_admin_token'), 'rate_limit_exceeded'])
  t.equal(status, 429)
  t.ok(Number(headers.get('retry-after')) > 0)
  t.equal((await call('GET accounts')).status, 200)
  t.equal((await guess('')).status, 401, 'a missing one is no guess')
})
