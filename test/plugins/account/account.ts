import t from 'tap'
import { startPage } from '../../fixtures/account-page.ts'

t.test('refusals have the headers of the page, too', async (t) => {
  const gateway = await startPage(t)
  const refused = await gateway.page('/account/api/me')
  t.equal(refused.status, 401)
  for (const name of ['content-security-policy', 'x-content-type-options', 'referrer-policy'])
    t.ok(refused.headers.get(name), name)
})

t.test('no secret of a log-in is in the log', async (t) => {
  const gateway = await startPage(t)
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
