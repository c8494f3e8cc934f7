// Getting in and out of the account page: links that are new, used, wrong and old; sessions that end; two tabs.

import t from 'tap'
import { openBrowser, settled, shows, startPage, twoTabs } from '../fixtures/page-browser.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { refOf } from '../fixtures/money.ts'
import { keys } from '../../src/redis/keys.ts'

const browser = await openBrowser(t)

t.test('a link logs in, and its secret is in no address and no history', async (t) => {
  const { tab, link } = await startPage(t, { browser })
  const page = await tab()
  const url = await link()
  const asked: string[] = []
  page.on('request', (request) => asked.push(request.url()))
  await page.goto(url)
  await shows(page, 'Available')
  const secret = new URL(url).hash.slice('#link='.length)
  t.ok(secret.length > 40)
  t.notOk(page.url().includes(secret), page.url())
  t.same(
    asked.filter((one) => one.includes(secret.slice(-20))),
    [],
    'no request has it in its URL',
  )
  await page.getByRole('link', { name: 'Limits' }).click()
  await settled(page, 'Limits')
  await page.goBack()
  await settled(page, 'Overview')
  t.notOk(page.url().includes(secret), 'nor has the history')
  await page.reload()
  await shows(page, 'Available')
})

t.test('used, wrong and old links say what to do, and nothing else differs', async (t) => {
  const { tab, link, gateway, account } = await startPage(t, { browser })
  const used = await link()
  const first = await tab()
  await first.goto(used)
  await shows(first, 'Available')
  const old = await link()
  const { client } = await connectLink(t, gateway.redis.socket)
  await client.del(keys.portalLinks(refOf(account)))
  for (const url of [
    used,
    old,
    used.replace(/....$/, 'AAAA'),
    `${gateway.url}/account#link=%E0%A4%A`,
  ]) {
    const page = await tab()
    await page.goto(url)
    await shows(page, 'This link does not work any more.')
    await shows(page, /Get a new one/)
    t.equal(new URL(page.url()).hash, '')
  }
})

t.test(
  'without a session, the page says how to get in, and a link opens it in the same tab',
  async (t) => {
    const { tab, link, gateway } = await startPage(t, { browser })
    const page = await tab()
    await page.goto(`${gateway.url}/account#transactions`)
    await page.getByRole('heading', { name: 'Log in to your account' }).waitFor()
    t.equal(await page.getByRole('link').count(), 0, 'no button without OpenID Connect')
    await page.goto(await link())
    await shows(page, 'Available')
  },
)

t.test('a log-out ends the session in every tab of the browser', async (t) => {
  const { person, one, two } = await twoTabs(await startPage(t, { browser }), 'Keys')
  await one.getByRole('button', { name: 'Log out' }).click()
  await shows(one, 'You have logged out.')
  t.same(await person.cookies(), [])
  await two.getByRole('link', { name: 'Usage' }).click()
  await shows(two, 'You have been logged out')
  await two.reload()
  await two.getByRole('heading', { name: 'Log in to your account' }).waitFor()
})

t.test(
  'a session that ends in the middle shows the log-in screen, over open dialogs too',
  async (t) => {
    const { enter, gateway, account } = await startPage(t, { browser })
    const page = await enter('Keys')
    await page.getByRole('button', { name: 'Create a key' }).click()
    const { client } = await connectLink(t, gateway.redis.socket)
    await client.del(keys.logins(refOf(account)))
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await shows(page, 'You have been logged out')
    t.equal(await page.getByRole('dialog').count(), 0)
    t.equal(await page.evaluate('sessionStorage.length'), 0, 'no key is left in the tab')
  },
)

t.test('a suspended account is told so', async (t) => {
  const { enter, gateway, account } = await startPage(t, { browser })
  const page = await enter('Keys')
  await gateway.admin('PATCH', `accounts/${account.id}`, { status: 'suspended' })
  await page.getByRole('link', { name: 'Limits' }).click()
  await shows(page, /suspended/)
})

t.test('a link for another account takes the place of the first one, in all tabs', async (t) => {
  const { enter, tab, visitor, gateway, link } = await startPage(t, { browser, name: 'First' })
  const person = await visitor()
  const one = await enter('Keys', { visitor: person })
  await shows(one, 'First')
  const other = await gateway.account(5, { name: 'Second' })
  const two = await tab({ visitor: person })
  await two.goto(await link(other))
  await shows(two, 'Second')
  await one.bringToFront()
  await one.evaluate(`document.dispatchEvent(new Event("visibilitychange"))`)
  await shows(one, 'Second')
})
