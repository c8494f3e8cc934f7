import t from 'tap'
import { refuseOtherSites } from '../../../src/plugins/account/access.ts'
import { browserOf, cookieIn, startPortal } from '../../fixtures/account-page.ts'
import { codeOf, refusedWith } from '../../fixtures/gateway.ts'

t.test('a cookie opens the page alone, and a key all but the page', async (t) => {
  const gateway = await startPortal(t)
  const { id, key } = await gateway.account(100)
  const { cookie, call } = await gateway.enter(id)
  t.equal((await call('GET me')).status, 200)
  for (const path of ['/v1/models', '/api/billing/balance', '/v1/api/billing/balance'])
    t.strictSame(await refusedWith(await gateway.page(path, { headers: { cookie } })), [
      401,
      'missing_api_key',
    ])
  for (const path of ['me', 'keys', 'balance', 'transactions', 'usage', 'limits'])
    t.strictSame(
      await refusedWith(await gateway.call(`/account/api/${path}`, key)),
      [401, 'not_logged_in'],
      path,
    )
  const forged = await gateway.page('/account/api/keys', {
    token: key,
    body: {},
    headers: gateway.own,
  })
  t.strictSame(await refusedWith(forged), [401, 'not_logged_in'])
  t.equal((await gateway.page('/v1/account/api/me', { headers: { cookie } })).status, 404)
  const answer = await fetch(`${gateway.adminUrl}/admin/accounts`, { headers: { cookie } })
  t.equal(answer.status, 401)
})

t.test('forged calls of other sites change nothing', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0)
  const { cookie, call } = await gateway.enter(id)
  const before = (await call('GET keys')).body.data
  const json = { 'content-type': 'application/json' }
  const forged: readonly Readonly<Record<string, string>>[] = [
    json,
    { ...json, origin: 'https://evil.example' },
    { ...json, origin: 'null' },
    { ...json, origin: `${gateway.url}.evil.example` },
    { ...json, origin: gateway.url.replace('127.0.0.1', 'localhost') },
    { ...json, origin: gateway.adminUrl },
    { ...json, origin: gateway.url, 'sec-fetch-site': 'cross-site' },
    { ...json, origin: gateway.url, 'sec-fetch-site': 'same-site' },
  ]
  for (const headers of forged)
    for (const [method, path, body] of [
      ['POST', 'keys', '{}'],
      ['POST', 'logout', '{}'],
      ['POST', 'playground-key', '{}'],
      ['DELETE', `keys/${before[0]?.id}`, undefined],
      ['PATCH', `keys/${before[0]?.id}`, '{"name":"x"}'],
    ] as const) {
      const answer = await gateway.page(`/account/api/${path}`, {
        method,
        body,
        headers: { cookie, ...headers },
      })
      t.strictSame(await refusedWith(answer), [403, 'origin_not_allowed'], JSON.stringify(headers))
    }
  const { origin } = gateway.own
  for (const type of [
    'application/x-www-form-urlencoded',
    'text/plain',
    'multipart/form-data; boundary=x',
  ]) {
    const headers = { cookie, origin, 'content-type': type }
    const answer = await gateway.page('/account/api/keys', { method: 'POST', body: '{}', headers })
    t.strictSame(await refusedWith(answer), [415, 'unsupported_media_type'], type)
    const bare = await gateway.page('/account/api/logout', { method: 'POST', headers })
    t.strictSame(await refusedWith(bare), [415, 'unsupported_media_type'], `${type}, no body`)
  }
  t.strictSame((await call('GET keys')).body.data, before)
  const read = await call('GET me', undefined, { 'sec-fetch-site': 'cross-site' })
  t.equal(read.status, 403, 'nor is anything read for them')
})

t.test('other pages can read nothing, whatever CORS allows', async (t) => {
  const origin = 'https://app.example.com'
  const gateway = await startPortal(t, { yaml: `  cors: { origins: ['*', '${origin}'] }` })
  const { id } = await gateway.account(0)
  const { cookie } = await gateway.enter(id)
  const answer = await gateway.page('/account/api/config', { headers: { cookie, origin } })
  t.equal(answer.headers.get('access-control-allow-credentials'), null)
  t.equal(answer.headers.get('cross-origin-resource-policy'), 'same-origin')
  t.equal(answer.headers.get('access-control-allow-origin'), null)
})

t.test('a Host header decides nothing when there is a url', async (t) => {
  const gateway = await startPortal(t, { account: `{ url: 'https://chat.example.com' }` })
  const { id } = await gateway.account(0)
  const answer = await gateway.admin('POST', `accounts/${id}/portal`, {}, { host: 'localhost' })
  const { url } = (await answer.json()) as { url: string }
  t.ok(url.startsWith('https://chat.example.com/account#link='), url)
  const link = url.slice(url.indexOf('#link=') + 6)
  t.strictSame(
    await refusedWith(await gateway.login(link)),
    [403, 'origin_not_allowed'],
    'not even a loopback address is the page',
  )
  const login = await gateway.login(link, { origin: 'https://chat.example.com' })
  t.match(login.headers.get('set-cookie'), /^__Host-tollgate=[^;]+; Path=\/; .*; Secure$/)
  const cookie = cookieIn(login)
  t.equal((await browserOf(gateway, cookie).call('GET me')).status, 200)
  const plain = cookie.replace('__Host-', '')
  t.equal((await browserOf(gateway, plain).call('GET me')).status, 401)
})

t.test('an address that tries cookies is held off, and nobody else', async (t) => {
  const gateway = await startPortal(t, {
    account: '{ failures_per_minute_per_ip: 3 }',
  })
  const { id } = await gateway.account(0)
  const { call, cookie } = await gateway.enter(id)
  const wrong = browserOf(gateway, `${cookie.slice(0, -3)}xyz`)
  const codes = []
  for (let i = 0; i < 5; i++) codes.push((await wrong.call('GET me')).status)
  t.strictSame(codes, [401, 401, 401, 429, 429])
  t.equal((await call('GET me')).status, 200, 'a good cookie still gets in')
  t.strictSame(await codeOf(await gateway.login('wrong')), 'rate_limit_exceeded')
  t.equal((await gateway.login(await gateway.makeLink(id))).status, 200, 'and so does a good link')
})

t.test('a body is bounded, and read only for somebody who is in', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0)
  const { call } = await gateway.enter(id)
  const answer = await call('POST keys', { name: 'x'.repeat(17_000) })
  t.match(answer, { status: 413, body: { error: { code: 'body_too_large' } } })
  t.strictSame(await refusedWith(await gateway.login('x'.repeat(5000))), [413, 'body_too_large'])
  const stranger = browserOf(gateway, 'tollgate=x')
  t.equal((await stranger.call('POST keys', { name: 'x'.repeat(6000) })).status, 401)
})

t.test('requests of the page are counted by account, and cost none of the API', async (t) => {
  const gateway = await startPortal(t)
  const { id, key } = await gateway.account(100, { plan: 'small' })
  const { call } = await gateway.enter(id)
  for (let i = 0; i < 20; i++) t.equal((await call('GET me')).status, 200)
  t.equal((await gateway.call('/api/billing/balance', key)).status, 200)
  // A large body is read only when it is known whose it is.
  for (let i = 0; i < 8; i++)
    t.equal((await call('POST keys', { name: 'x'.repeat(5000) })).status, 400)
  // Ten requests a second come back, so a slow machine has to ask for more than 600.
  const statuses = new Set<number>()
  for (let i = 0; i < 100 && !statuses.has(429); i++) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => call('GET balance')))
    for (const { status } of answers) statuses.add(status)
  }
  t.strictSame([...statuses], [200, 429])
})

t.test('an unknown query parameter is refused', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0)
  const { call } = await gateway.enter(id)
  t.match(await call('GET transactions?limt=1'), { body: { error: { code: 'unknown_parameter' } } })
})

t.test('reading needs no origin', async (t) => {
  const never = () => false
  t.doesNotThrow(() => refuseOtherSites({ method: 'GET', headers: {} }, never))
  t.throws(() => refuseOtherSites({ method: 'PUT', headers: {} }, never), {
    code: 'origin_not_allowed',
  })
})
