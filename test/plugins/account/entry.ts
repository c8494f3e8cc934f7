import t from 'tap'
import { keys } from '../../../src/redis/keys.ts'
import { browserOf, cookieIn, startPortal } from '../../fixtures/account-page.ts'
import { refusedWith } from '../../fixtures/gateway.ts'

t.test('the operator makes a link, and the customer is in', async (t) => {
  const gateway = await startPortal(t, {
    account: `{ return_urls: ['https://www.example.com'], currency: { code: EUR, tokens: 1000 }, low_balance: 50 }`,
  })
  const { id } = await gateway.account(49)
  const answer = await gateway.admin('POST', `accounts/${id}/portal`, {
    return_url: 'https://www.example.com/billing?a=b',
  })
  t.equal(answer.status, 201)
  const made = (await answer.json()) as { url: string; expires_at: number; object: string }
  t.match(made, { object: 'account.portal_link', expires_at: Number })
  t.match(made.url, /^http:\/\/localhost:\d+\/account#link=[0-9A-Za-z]{12}\.[\w-]{43}$/)
  const login = await gateway.login(made.url.slice(made.url.indexOf('=') + 1))
  t.equal(login.status, 200)
  t.strictSame(await login.json(), { object: 'account.login', account_id: id })
  t.match(
    login.headers.get('set-cookie'),
    /^tollgate=[^;]+; Path=\/; Max-Age=604800; HttpOnly; SameSite=Lax$/,
  )
  const { body } = await browserOf(gateway, cookieIn(login)).call('GET me')
  t.match(body, {
    object: 'account.me',
    id,
    plan: 'default',
    status: 'active',
    currency: { code: 'EUR', tokens: 1000 },
    low_balance: true,
    return_url: 'https://www.example.com/billing?a=b',
    login: 'link',
    playground_key_id: null,
  })
  t.strictSame(
    (body['models'] as readonly { id: string }[]).map((model) => model.id),
    ['m', 'other'],
    'those that chat',
  )
})

t.test('me: what is not configured is null, and a plan bounds the models', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0, { plan: 'small' })
  const { call } = await gateway.enter(id)
  t.match((await call('GET me')).body, {
    currency: null,
    low_balance: false,
    return_url: null,
    models: [{ id: 'm', price: { input: 1, output: 1 }, accepts: ['text'] }],
  })
})

t.test('one link, 50 log-ins at once: exactly one gets in', async (t) => {
  const gateway = await startPortal(t, { account: '{ failures_per_minute_per_ip: 1000 }' })
  const { id } = await gateway.account(0)
  const link = await gateway.makeLink(id)
  const answers = await Promise.all(Array.from({ length: 50 }, () => gateway.login(link)))
  t.equal(answers.filter(({ status }) => status === 200).length, 1)
  for (const answer of answers.filter(({ status }) => status !== 200)) {
    t.equal(answer.headers.get('set-cookie'), null)
    t.equal(answer.headers.get('www-authenticate'), 'Cookie realm="tollgate"')
    t.strictSame(await refusedWith(answer), [401, 'invalid_link'])
  }
})

t.test('wrong, used, expired and guessed links get one answer', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0)
  const { client } = gateway.gateway.redis
  const [used, expired] = [await gateway.makeLink(id), await gateway.makeLink(id)]
  const ref = used.slice(0, 12)
  await gateway.login(used)
  for (const field of await client.hkeys(keys.portalLinks(ref)))
    await client.hset(keys.portalLinks(ref), field, '1 1 ')
  const bodies = new Set<string>()
  for (const link of [used, expired, '', 'x', `${ref}.${'A'.repeat(43)}`]) {
    const answer = await gateway.login(link)
    const { error } = (await answer.json()) as { error: object }
    bodies.add(`${answer.status} ${JSON.stringify(error)}`)
  }
  t.equal(bodies.size, 1)
  t.match([...bodies][0], /^401 .*invalid_link/)
})

t.test('a log-in never takes a cookie that the browser had', async (t) => {
  const gateway = await startPortal(t)
  const [mine, other] = [await gateway.account(0), await gateway.account(0)]
  const planted = await gateway.enter(other.id)
  const login = await gateway.login(await gateway.makeLink(mine.id), { cookie: planted.cookie })
  const cookie = cookieIn(login)
  t.not(cookie, planted.cookie)
  t.match((await browserOf(gateway, cookie).call('GET me')).body, { id: mine.id })
  t.equal((await planted.call('GET me')).status, 401, 'and who planted it has nothing')
})

t.test('a link is used by POST alone: a scanner that GETs it does not use it up', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0)
  const link = await gateway.makeLink(id)
  await gateway.page(`/account?link=${link}`)
  await gateway.page(`/account/api/login?link=${link}`)
  t.equal((await gateway.login(link)).status, 200)
})

t.test('return_url: no other origin, no script, no header', async (t) => {
  const gateway = await startPortal(t, { account: `{ return_urls: ['https://www.example.com'] }` })
  const { id } = await gateway.account(0)
  for (const return_url of [
    'javascript:alert(1)',
    'https://evil.example/',
    'https://www.example.com.evil.example/',
    'https://www.example.com@evil.example/',
    'blob:https://www.example.com/1',
    '//evil.example',
  ]) {
    const answer = await gateway.admin('POST', `accounts/${id}/portal`, { return_url })
    t.strictSame(await refusedWith(answer), [400, 'invalid_parameter'], return_url)
  }
  const answer = await gateway.admin('POST', `accounts/${id}/portal`, {
    return_url: 'https://www.example.com/a\r\nSet-Cookie: x=y',
  })
  const { url } = (await answer.json()) as { url: string }
  const login = await gateway.login(url.slice(url.indexOf('=') + 1))
  t.equal(login.headers.getSetCookie().length, 1)
  const { body } = await browserOf(gateway, cookieIn(login)).call('GET me')
  t.match(body['return_url'], /^https:\/\/www\.example\.com\/a[^\r\n ]*$/)
})

t.test('the link is for operators alone', async (t) => {
  const gateway = await startPortal(t)
  const { id, key } = await gateway.account(0)
  const path = `/admin/accounts/${id}/portal`
  t.equal((await gateway.call(path, key, {})).status, 404, 'not on the public port')
  t.equal((await gateway.admin('POST', `accounts/${id}/portal`, {})).status, 201)
  t.match(JSON.parse(gateway.log.at(-1) ?? ''), {
    route: '/admin/accounts/:id/portal',
    account: id,
  })
  const stranger = await fetch(gateway.adminUrl + path, { method: 'POST' })
  t.strictSame(await refusedWith(stranger), [401, 'invalid_admin_token'])
  const nobody = await gateway.admin('POST', 'accounts/nobody/portal', {})
  t.strictSame(await refusedWith(nobody), [404, 'account_not_found'])
  const off = await startPortal(t, { yaml: '  admin: false' })
  t.equal(
    (await off.admin('POST', `accounts/${id}/portal`, {})).status,
    404,
    'nor without the admin plugin',
  )
})

t.test('log-out ends the log-in here and in the browser', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0)
  const { call } = await gateway.enter(id)
  const answer = await call('POST logout')
  t.match(answer, { status: 200, body: { object: 'account.logout', url: null } })
  t.equal(answer.headers.get('set-cookie'), 'tollgate=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax')
  t.match(await call('GET me'), { status: 401, body: { error: { code: 'not_logged_in' } } })
})

t.test('a suspended account is out, and stays out when it is resumed', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0)
  const [one, two] = [await gateway.enter(id), await gateway.enter(id)]
  await gateway.admin('PATCH', `accounts/${id}`, { status: 'suspended' })
  t.match(await one.call('GET me'), { status: 403, body: { error: { code: 'account_suspended' } } })
  const refused = await gateway.admin('POST', `accounts/${id}/portal`, {})
  t.strictSame(await refusedWith(refused), [403, 'account_suspended'])
  await gateway.admin('PATCH', `accounts/${id}`, { status: 'active' })
  for (const browser of [one, two]) t.equal((await browser.call('GET me')).status, 401)
})

t.test('the log-in screen knows what there is', async (t) => {
  const gateway = await startPortal(t)
  const answer = await gateway.page('/account/api/config')
  t.strictSame(await answer.json(), { object: 'account.config', oidc: null })
})

t.test('a deleted account is out, and leaves nothing of its log-ins', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(5)
  const { call, cookie } = await gateway.enter(id)
  const link = await gateway.makeLink(id)
  const { body: playground } = await call('POST playground-key')
  const deleted = await gateway.admin('DELETE', `accounts/${id}?forfeit=true`)
  t.equal(deleted.status, 200)
  t.equal((await call('GET me')).status, 401)
  t.equal((await call('POST playground-key')).status, 401)
  t.equal((await gateway.call('/v1/models', playground.key)).status, 401)
  t.strictSame(await refusedWith(await gateway.login(link)), [401, 'invalid_link'])
  const refused = await gateway.admin('POST', `accounts/${id}/portal`, {})
  t.strictSame(await refusedWith(refused), [410, 'account_deleted'])
  const ref = cookie.slice('tollgate='.length).slice(0, 12)
  const left = await gateway.gateway.redis.client.keys(`{${ref}}:*`)
  t.notOk(left.some((name) => /portal-links|logins|page-keys|:key:/.test(name)))
})
