import t from 'tap'
import { browserOf, cookieIn, startPortal } from '../../fixtures/account-page.ts'
import type { Browser } from '../../fixtures/account-page.ts'
import { send, spawnGateway } from '../../fixtures/gateway.ts'

t.test('refusals have the headers of the page, too', async (t) => {
  const gateway = await startPortal(t)
  const refused = await gateway.page('/account/api/me')
  t.equal(refused.status, 401)
  for (const name of ['content-security-policy', 'x-content-type-options', 'referrer-policy'])
    t.ok(refused.headers.get(name), name)
})

t.test('no secret of a log-in is in the log', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0)
  const link = await gateway.makeLink(id)
  await gateway.login(link)
  await gateway.login(link)
  const { cookie, call } = await gateway.enter(id)
  await call('GET me')
  const log = gateway.log.join('')
  t.match(log, /\/account\/api\/login/)
  for (const secret of [link, cookie.slice('tollgate='.length)])
    t.notOk(log.includes(secret.slice(13)), 'neither link nor cookie')
})

t.test('any gateway on one Redis lets in and knows who is in', async (t) => {
  const one = await startPortal(t)
  const two = await startPortal(t, { redis: one.redis })
  const { id } = await one.account(0)
  const link = await one.makeLink(id)
  const login = await two.login(link)
  t.equal(login.status, 200)
  const cookie = cookieIn(login)
  for (const gateway of [one, two])
    t.match((await browserOf(gateway, cookie).call('GET me')).body, { id })
  await browserOf(one, cookie).call('POST logout')
  t.equal((await browserOf(two, cookie).call('GET me')).status, 401)
})

t.test('a supervisor makes the link, its workers let in', async (t) => {
  const models = 'models: { demo: { targets: [demo] } }'
  const gateway = await spawnGateway(t, { yaml: `${models}\nworkers: 2` })
  const { id } = await gateway.account(5)
  const { url } = (await (await gateway.admin('POST', `accounts/${id}/portal`, {})).json()) as {
    url: string
  }
  const link = url.slice(url.indexOf('#link=') + '#link='.length)
  const headers = { origin: gateway.url, 'content-type': 'application/json' }
  const login = await send(`${gateway.url}/account/api/login`, { body: { link }, headers })
  t.equal(login.status, 200)
  const { call } = browserOf(gateway, cookieIn(login))
  for (let i = 0; i < 8; i++) t.match((await call('GET balance')).body, { available: 5 })
  t.equal((await send(`${gateway.url}/account`, {})).status, 200)
})

t.test('an account that many people share has as many log-ins as the operator says', async (t) => {
  const gateway = await startPortal(t, { account: '{ max_logins: 26 }' })
  const { id } = await gateway.account(0)
  const people: Browser[] = []
  for (let i = 0; i < 27; i++) people.push(await gateway.enter(id))
  const isIn = async (at: number) => (await people[at]?.call('GET me'))?.status === 200
  t.strictSame([await isIn(0), await isIn(1), await isIn(26)], [false, true, true])
  const tries = []
  for (const one of people.slice(1, 15)) tries.push(await one.call('POST playground-key', {}))
  const statuses = tries.map(({ status }) => status)
  t.strictSame(
    statuses,
    [...Array<number>(13).fill(201), 429],
    'half as many keys of the playground',
  )
  const list = await send(`${gateway.url}/v1/models`, { token: tries[0]?.body.key })
  t.equal(list.status, 200, 'the first has not ended by the last')
})
