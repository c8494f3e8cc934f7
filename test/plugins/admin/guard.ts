import t from 'tap'
import { request } from 'node:http'
import { refusal, startAdmin } from '../../fixtures/admin-listener.ts'
import { adminToken } from '../../fixtures/gateway.ts'

t.test('without the right token nothing is revealed', async (t) => {
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
  // fetch sets the Host header itself, so this does not use it.
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
