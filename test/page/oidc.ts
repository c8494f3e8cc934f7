// Through a real identity provider in a real browser: to the overview, and out again, of both. The provider is another
// site than the page, so that cookies come and go as they do in the world.

import t from 'tap'
import type { Test } from 'tap'
import { freePort } from '../fixtures/free-port.ts'
import { clientId, clientSecret, startProvider } from '../fixtures/identity-provider.ts'
import { openBrowser, settled, shows, startPage } from '../fixtures/page-browser.ts'

const browser = await openBrowser(t)

async function start(t: Test, keys = '') {
  const port = await freePort()
  const origin = `http://localhost:${port}`
  const provider = await startProvider(t, { redirectUri: `${origin}/account/oidc/callback` })
  const oidc = `issuer: '${provider.issuer}', client_id: ${clientId}, client_secret: ${clientSecret}, label: Example ID`
  const account = `url: '${origin}', oidc: { ${oidc} }${keys}`
  const world = await startPage(t, { browser, account, port })
  return { ...world, provider, url: `${origin}/account` }
}

t.test('a person logs in at the provider, reads, and is out of both afterwards', async (t) => {
  const { tab, visitor, provider, url } = await start(t)
  provider.person = { sub: 'ann', email: 'ann@example.com', email_verified: true }
  const person = await visitor()
  const page = await tab({ visitor: person })
  const asked: string[] = []
  page.on('request', (request) => asked.push(request.url()))
  await page.goto(url)
  await page.getByRole('link', { name: 'Log in with Example ID' }).click()
  await settled(page, 'Overview')
  await shows(page, 'Available')
  await shows(page, 'ann@example.com')
  t.equal(page.url(), url, 'neither code nor state is left in the address')
  const callback = asked.find((one) => one.includes('/oidc/callback?')) ?? ''
  await page.reload()
  await settled(page, 'Overview')
  const cookies = await person.cookies(url)
  for (const { name, httpOnly, sameSite } of cookies.filter((one) =>
    one.name.startsWith('tollgate'),
  ))
    t.match({ httpOnly, sameSite }, { httpOnly: true, sameSite: 'Lax' }, name)
  t.equal(await page.evaluate('document.cookie'), '')

  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByRole('button', { name: 'Yes, sign me out' }).click()
  await page.getByRole('heading', { name: 'Log in to your account' }).waitFor()
  t.equal(page.url(), url)
  await page.goto(callback)
  await page.getByRole('heading', { name: 'Log in to your account' }).waitFor()
  await shows(page, /identity provider/)
  provider.person = { sub: 'bob', email: 'bob@example.com', email_verified: true }
  await page.getByRole('link', { name: 'Log in with Example ID' }).click()
  await settled(page, 'Overview')
  await shows(page, 'bob@example.com')
})

t.test('who is refused is told so, and who comes too often waits on a page', async (t) => {
  const { tab, provider, url } = await start(t, ', failures_per_minute_per_ip: 1')
  const page = await tab()
  provider.isForged = true
  await page.goto(url)
  await page.getByRole('link', { name: 'Log in with Example ID' }).click()
  await shows(page, /identity provider/)
  provider.isForged = false
  await page.getByRole('link', { name: 'Log in with Example ID' }).click()
  await page.getByRole('heading', { name: 'Please wait' }).waitFor()
  await page.getByRole('link', { name: 'Back' }).click()
  await page.getByRole('heading', { name: 'Log in to your account' }).waitFor()
})
