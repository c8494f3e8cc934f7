import { createHmac } from 'node:crypto'
import t from 'tap'
import { seal, unseal } from '../../../src/accounts/seal.ts'
import { browserOf, cookieIn, startPortal } from '../../fixtures/account-page.ts'
import { adminToken } from '../../fixtures/gateway.ts'
import { startOidc } from '../../fixtures/oidc-page.ts'
import { until } from '../../fixtures/until.ts'

const failing = (code: string) => `/account#error=${code}`
const refused = failing('login_refused')

t.test('a person logs in at the provider; the first time makes the account', async (t) => {
  const page = await startOidc(t, 'plan: small, starting_balance: 500, label: Example')
  page.provider.person = { sub: 'u1', email: 'ann@example.com', email_verified: true }
  t.strictSame(await (await page.page('/account/api/config')).json(), {
    object: 'account.config',
    oidc: { label: 'Example', start: '/account/oidc/start' },
  })
  const ann = page.person()
  t.equal(await ann.login(), '/account')
  const asked = Object.fromEntries(page.provider.asked)
  t.match(asked, {
    response_type: 'code',
    code_challenge_method: 'S256',
    code_challenge: /^[\w-]{43}$/,
    state: /^[\w-]{43}$/,
    nonce: /^[\w-]{43}$/,
    redirect_uri: page.redirectUri,
    scope: 'openid email profile',
  })
  const me = await page.me(ann)
  t.match(me, { name: 'ann@example.com', plan: 'small', login: 'oidc', return_url: null })
  const again = page.person()
  t.equal(await again.login(), '/account')
  t.equal((await page.me(again)).id, me.id, 'the next time is the same account')
  t.match((await browserOf(page, again.cookie).call('GET balance')).body, { granted: 500 })
  const found = await page.admin('GET', `accounts/${me.id}`)
  t.match(await found.json(), { external_id: `${page.provider.issuer}#sub=u1`, plan: 'small' })
  page.provider.person = { sub: 'u2' }
  const other = page.person()
  await other.login()
  t.match((await page.me(other))['name'], /^127\.0\.0\.1:\d+\/u2$/)
})

t.test('twenty first log-ins at once: one account, one starting balance', async (t) => {
  const page = await startOidc(t, 'starting_balance: 500')
  const people = Array.from({ length: 20 }, () => page.person())
  const ends = await Promise.all(people.map((one) => one.login()))
  t.strictSame(new Set(ends), new Set(['/account']))
  const ids = new Set(await Promise.all(people.map(async (one) => (await page.me(one)).id)))
  t.equal(ids.size, 1)
  const [first] = people
  const { body } = await browserOf(page, first?.cookie ?? '').call('GET balance')
  t.match(body, { granted: 500 })
})

t.test('domains: only a verified address of one of them', async (t) => {
  const page = await startOidc(t, 'allow: { domains: [Example.com] }')
  for (const [person, end] of [
    [{ email: 'a@example.com', email_verified: true }, '/account'],
    [{ email: 'b@EXAMPLE.com', email_verified: true }, '/account'],
    [{ email: 'c@example.com', email_verified: false }, refused],
    [{ email: 'd@example.com' }, refused],
    [{ email: 'e@example.com', email_verified: 'true' }, refused],
    [{ email: 'f@example.com.evil.example', email_verified: true }, refused],
    [{ email: 'g@sub.example.com', email_verified: true }, refused],
    [{ email: 'example.com', email_verified: true }, refused],
    [{}, refused],
  ] as const) {
    page.provider.person = { sub: JSON.stringify(person), ...person } as never
    t.equal(await page.person().login(), end, JSON.stringify(person))
  }
})

t.test('groups: only members', async (t) => {
  const page = await startOidc(t, 'allow: { groups: [staff, ops] }')
  for (const [groups, end] of [
    [['staff'], '/account'],
    [['x', 'ops'], '/account'],
    ['ops', '/account'],
    [['staff2'], refused],
    [[], refused],
    ['staff ops', refused],
    [undefined, refused],
  ] as const) {
    page.provider.person = { sub: JSON.stringify({ groups }), groups } as never
    t.equal(await page.person().login(), end, JSON.stringify(groups))
  }
})

t.test(
  'account_claim: people with one value share an account; without it nobody is in',
  async (t) => {
    const page = await startOidc(t, 'account_claim: team')
    const ids = []
    for (const sub of ['a', 'b']) {
      page.provider.person = { sub, team: 'red' }
      const one = page.person()
      t.equal(await one.login(), '/account')
      ids.push((await page.me(one)).id)
    }
    t.equal(ids[0], ids[1])
    for (const team of [undefined, '', 7, ['red'], 'a\nb']) {
      page.provider.person = { sub: `c${String(team)}`, team } as never
      t.equal(await page.person().login(), refused, JSON.stringify(team))
    }
  },
)

t.test('a token that is not exactly right lets nobody in', async (t) => {
  const page = await startOidc(t)
  const nowS = Math.floor(Date.now() / 1000)
  for (const [what, tamper] of [
    ['issuer', { iss: 'https://evil.example' }],
    ['audience', { aud: 'another-client' }],
    ['several audiences without azp', { aud: ['tollgate', 'other'], azp: 'other' }],
    ['expired', { exp: nowS - 600, iat: nowS - 1200 }],
    ['nonce', { nonce: 'another' }],
    ['no nonce', { nonce: undefined }],
    ['no subject', { sub: undefined }],
  ] as const) {
    page.provider.tamper = (claims) => ({ ...claims, ...tamper })
    t.equal(await page.person().login(), refused, what)
  }
  page.provider.tamper = undefined
  page.provider.isForged = true
  t.equal(await page.person().login(), refused, 'signed by somebody else')
  page.provider.isForged = false
  t.equal(await page.person().login(), '/account')
  const { data } = (await (await page.admin('GET', 'accounts')).json()) as { data: unknown[] }
  t.equal(data.length, 1, 'and no refused log-in has made an account')
})

t.test('an answer counts once, for the browser that asked, with its own state', async (t) => {
  const page = await startOidc(t)
  const isCallback = (url: URL) => url.pathname === '/account/oidc/callback'
  const start = `${page.origin}/account/oidc/start`
  const ann = page.person()
  const answer = await ann.go(start, isCallback)
  const thief = page.person()
  const error = `${page.origin}${refused}`
  t.equal(await thief.go(answer), error, 'a browser that never asked')
  await thief.go(start, isCallback)
  t.equal(await thief.go(answer), error, 'a browser that asked for itself')
  const { cookieHeader } = ann
  t.equal(await ann.go(answer), `${page.origin}/account`)
  const calls = page.provider.tokenCalls
  const replayed = await page.page(answer.slice(page.origin.length), { headers: cookieHeader })
  t.equal(replayed.headers.get('location'), refused, 'the same answer and cookie once more')
  t.equal(page.provider.tokenCalls, calls, 'of which the provider hears nothing')
  const bob = page.person()
  const own = await bob.go(start, isCallback)
  t.equal(await bob.go(own.replace(/state=[^&]+/, 'state=another')), error)
  t.equal(await bob.go(own), `${page.origin}/account`, 'another site has not used his state up')
})

t.test('an answer that comes after more than ten minutes is refused', async (t) => {
  const page = await startOidc(t)
  const sealKey = createHmac('sha256', adminToken).update('oidc').digest()
  const isCallback = (url: URL) => url.pathname === '/account/oidc/callback'
  // Redis forgets after ten minutes which answers have come.
  for (const [minutes, end] of [
    [9, '/account'],
    [11, refused],
  ] as const) {
    const ann = page.person()
    const answer = await ann.go(`${page.origin}/account/oidc/start`, isCallback)
    const [name = '', value = ''] = ann.cookie.split('=')
    const kept = JSON.parse(unseal(value, sealKey)) as { readonly atMs: number }
    const older = JSON.stringify({ ...kept, atMs: kept.atMs - minutes * 60_000 })
    const headers = { cookie: `${name}=${seal(older, sealKey)}` }
    const came = await page.page(answer.slice(page.origin.length), { headers })
    t.equal(came.headers.get('location'), end)
  }
})

/** Comes back with a state that is good, and a code that nobody has given. */
async function invent(
  { page, provider }: Awaited<ReturnType<typeof startOidc>>,
  address = '192.0.2.1',
): Promise<Response> {
  const start = await page('/account/oidc/start')
  const state = new URL(start.headers.get('location') ?? '').searchParams.get('state')
  return page(`/account/oidc/callback?state=${state}&code=invented&iss=${provider.issuer}`, {
    headers: { cookie: cookieIn(start), 'x-forwarded-for': address },
  })
}

const forwarding = { listen: 'trusted_proxies: [127.0.0.1]' }

t.test('an address that invents codes makes the provider hear of few of them', async (t) => {
  const world = await startOidc(t, '', { ...forwarding, failuresPerMinute: 3 })
  const answers = []
  for (let i = 0; i < 8; i++) answers.push(await invent(world))
  const statuses = answers.map(({ status }) => status)
  t.strictSame(statuses, [303, 303, 303, 429, 429, 429, 429, 429])
  t.equal(world.provider.tokenCalls, 3)
  const last = answers.at(-1)
  t.match(last?.headers.get('content-type'), 'text/html')
  t.equal(last?.headers.get('cache-control'), 'no-store')
  t.match(last?.headers.get('content-security-policy'), /default-src 'none'/)
  const waitS = Number(last?.headers.get('retry-after'))
  t.ok(waitS > 1 && waitS <= 20, String(waitS))
  t.match(await last?.text(), /Too many log-ins/)
  t.strictSame(await world.gateway.redis.client.keys('*invented*'), [])
  t.equal((await invent(world, '192.0.2.2')).status, 303, 'another address is heard')
})

t.test(
  'good log-ins of one address are never too many, and a refused one is not used up',
  async (t) => {
    const world = await startOidc(t, '', { ...forwarding, failuresPerMinute: 2 })
    for (let i = 0; i < 6; i++) t.equal(await world.person().login(), '/account')
    for (let i = 0; i < 2; i++) await invent(world, '127.0.0.1')
    const isCallback = (url: URL) => url.pathname === '/account/oidc/callback'
    const ann = world.person()
    const answer = new URL(await ann.go(`${world.origin}/account/oidc/start`, isCallback))
    const calls = world.provider.tokenCalls
    const path = `${answer.pathname}${answer.search}`
    const early = await world.page(path, { headers: ann.cookieHeader })
    t.equal(early.status, 429)
    t.equal(early.headers.get('set-cookie'), null)
    t.equal(world.provider.tokenCalls, calls)
    const headers = { ...ann.cookieHeader, 'x-forwarded-for': '192.0.2.2' }
    const later = await world.page(path, { headers })
    t.equal(later.headers.get('location'), '/account', 'the page loaded anew, later')
  },
)

t.test('while the provider is slow, few log-ins of an address wait for it', async (t) => {
  const world = await startOidc(t, '', forwarding)
  const slow = Promise.withResolvers<void>()
  world.provider.before = (path, _res, goOn) =>
    void (path === '/token' ? slow.promise.then(goOn) : goOn())
  const ofOne = Array.from({ length: 51 }, () => invent(world, '192.0.2.1'))
  const oneTooMany = await Promise.any(ofOne)
  t.equal(oneTooMany.status, 429)
  t.equal(oneTooMany.headers.get('retry-after'), '1')
  const ofOther = invent(world, '198.51.100.1')
  await until(() => world.provider.tokenCalls === 51)
  slow.resolve()
  await Promise.all([...ofOne, ofOther])
  t.equal(await world.person().login(), '/account', 'afterwards there is room')
})

t.test('two gateways on one Redis take an answer once between them', async (t) => {
  const page = await startOidc(t)
  const { redis, account } = page
  const other = await startPortal(t, { redis, account })
  for (let round = 0; round < 5; round++) {
    const ann = page.person()
    const isCallback = (url: URL) => url.pathname === '/account/oidc/callback'
    const { pathname, search } = new URL(
      await ann.go(`${page.origin}/account/oidc/start`, isCallback),
    )
    const headers = ann.cookieHeader
    const calls = page.provider.tokenCalls
    const come = (to: typeof page.page) => to(`${pathname}${search}`, { headers })
    const answers = await Promise.all([page, other, page, other].map((one) => come(one.page)))
    answers.push(await come(other.page), await come(page.page))
    const ends = answers.map((answer) => answer.headers.get('location'))
    t.strictSame(ends.toSorted(), ['/account', ...Array<string>(5).fill(refused)])
    t.equal(page.provider.tokenCalls, calls + 1)
    const cookies = answers.flatMap((answer) => answer.headers.getSetCookie())
    t.equal(cookies.length, 1, 'nor does a refused one get a cookie')
  }
})

t.test('a Redis that is away counts against no address', async (t) => {
  const page = await startOidc(t, '', { failuresPerMinute: 1 })
  await page.redis.stop()
  const away = failing('ledger_unavailable')
  for (let i = 0; i < 3; i++) t.equal((await invent(page)).headers.get('location'), away)
  t.equal(page.provider.tokenCalls, 0)
})

t.test('neither route leads anywhere else', async (t) => {
  const page = await startOidc(t)
  for (const path of [
    'callback?return_url=https://evil.example&code=x&state=y',
    'callback?error=access_denied&error_description=<script>&state=y',
    'callback?iss=https://evil.example&code=x',
    'callback',
    'callback?state=%0d%0aSet-Cookie:%20x=y',
  ]) {
    const answer = await page.page(`/account/oidc/${path}`)
    t.equal(answer.status, 303)
    t.equal(answer.headers.get('location'), refused, path)
    t.equal(answer.headers.get('set-cookie'), null)
  }
  const answer = await page.page('/account/oidc/start?return_url=https://evil.example', {
    headers: {
      host: 'evil.example',
      'x-forwarded-host': 'evil.example',
      'x-forwarded-proto': 'https',
      forwarded: 'host=evil.example;proto=https',
    },
  })
  const location = new URL(answer.headers.get('location') ?? '')
  t.equal(location.origin, page.provider.issuer)
  t.equal(location.searchParams.get('redirect_uri'), page.redirectUri, 'not from the Host')
  t.match(
    answer.headers.get('set-cookie'),
    /^tollgate-oidc=[\w-]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax$/,
  )
  t.notMatch(answer.headers.get('set-cookie'), location.searchParams.get('state') ?? 'none')
})

t.test('a suspended account is not let in', async (t) => {
  const page = await startOidc(t)
  const ann = page.person()
  await ann.login()
  const { id } = await page.me(ann)
  await page.admin('PATCH', `accounts/${id}`, { status: 'suspended' })
  t.equal(await page.person().login(), failing('account_suspended'))
  t.equal((await browserOf(page, ann.cookie).call('GET me')).status, 403)
})

t.test('log-out names the way out of the provider', async (t) => {
  const page = await startOidc(t)
  const ann = page.person()
  await ann.login()
  const { call } = browserOf(page, ann.cookie)
  const { body } = await call('POST logout')
  const url = new URL(String(body['url']))
  t.equal(url.origin, page.provider.issuer)
  t.equal(url.searchParams.get('post_logout_redirect_uri'), `${page.origin}/account`)
  t.equal((await call('GET me')).status, 401)
})

t.test('log-out works whatever the provider does', async (t) => {
  const page = await startOidc(t)
  const ann = page.person()
  await ann.login()
  // A gateway that has not asked the provider yet.
  const { redis, account } = page
  const other = await startPortal(t, { redis, account })
  page.provider.before = () => undefined
  const begun = performance.now()
  const { call } = browserOf(other, ann.cookie)
  const { status, body } = await call('POST logout', undefined, { origin: page.origin })
  t.match({ status, body }, { status: 200, body: { object: 'account.logout', url: null } })
  t.ok(performance.now() - begun < 5000, 'long before a call to the provider is given up')
  t.equal((await browserOf(page, ann.cookie).call('GET me')).status, 401)
})

t.test('a provider that fails in the middle is away, and has refused nobody', async (t) => {
  const page = await startOidc(t)
  await page.person().login()
  for (const before of [
    (path, res, goOn) => void (path === '/token' ? res.writeHead(503).end('busy') : goOn()),
    (path, res, goOn) => void (path === '/token' ? res.destroy() : goOn()),
    (path, res, goOn) =>
      void (path === '/token'
        ? res.writeHead(500, { 'content-type': 'application/json' }).end('{"error":"server_error"}')
        : goOn()),
  ] satisfies (typeof page.provider.before)[]) {
    page.provider.before = before
    t.equal(await page.person().login(), failing('login_unavailable'))
  }
})

t.test('a provider that is away refuses log-ins, and starts no gateway late', async (t) => {
  const account = `{ oidc: { issuer: 'http://127.0.0.1:1', client_id: a } }`
  const page = await startPortal(t, { account })
  const answer = await page.page('/account/oidc/start')
  t.equal(answer.headers.get('location'), failing('login_unavailable'))
  const { id } = await page.account(0)
  t.equal((await page.enter(id)).cookie.startsWith('tollgate='), true, 'links go on')
})

t.test('the log says why, and never what the provider has sent', async (t) => {
  const page = await startOidc(t, 'allow: { groups: [staff] }')
  await page.person().login()
  const line = page.log.find((one) => one.includes('a log-in was refused')) ?? ''
  t.match(line, /"code":"login_refused"/)
  t.match(line, /groups/)
  const log = page.log.join('')
  t.notMatch(log, /a-secret-of-the-client|code=|id_token|eyJ/)
})

t.test('an unknown plan stops the start', async (t) => {
  const account = `{ oidc: { issuer: 'https://id.example.com', client_id: a, plan: none } }`
  await t.rejects(startPortal(t, { account }), /oidc\.plan/)
  const off = await startPortal(t)
  t.equal((await off.page('/account/oidc/start')).status, 404, 'nothing without a provider')
})
