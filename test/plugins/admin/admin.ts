import t from 'tap'
import { request } from 'node:http'
import { refusal, startAdmin } from '../../fixtures/admin-listener.ts'
import { adminToken } from '../../fixtures/gateway.ts'

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

t.test('without the right token nothing is told', async (t) => {
  const { call } = await startAdmin(t)
  for (const authorization of [
    '',
    'Bearer',
    'Bearer wrong',
    `Basic ${adminToken}`,
    `Bearer ${adminToken} x`,
  ]) {
    const { status, body } = await call('GET accounts', undefined, { authorization })
    t.equal(status, 401, authorization)
    t.match(body, refusal('invalid_admin_token'))
  }
  t.equal(
    (await call('GET accounts', undefined, { authorization: `bearer ${adminToken}` })).status,
    200,
  )
})

t.test('a web page is refused by its Origin or its Host, right token or not', async (t) => {
  const { call, url } = await startAdmin(t)
  const page = await call('GET accounts', undefined, { origin: 'http://127.0.0.1:9090' })
  t.match(page, { status: 403, body: refusal('origin_not_allowed') })
  // fetch sets Host itself.
  const statusFor = (host: string) =>
    new Promise<number>((resolve, reject) => {
      const headers = { host, authorization: `Bearer ${adminToken}` }
      const sent = request(`${url}/admin/accounts`, { headers }, (answer) => {
        answer.resume()
        resolve(answer.statusCode ?? 0)
      })
      sent.on('error', reject).end()
    })
  for (const host of [
    'localhost',
    'LOCALHOST:1',
    '127.0.0.1:9090',
    '127.1.2.3',
    '[::1]:9090',
    'gateway.internal',
  ]) {
    t.equal(await statusFor(host), 200, host)
  }
  for (const host of [
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '10.0.0.1',
    'evil.example:9090',
  ]) {
    t.equal(await statusFor(host), 403, host)
  }
})
