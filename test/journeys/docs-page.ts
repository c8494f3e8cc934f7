// /docs in a browser: it shows the routes, tries one with a key, and asks no other host for anything.

import t from 'tap'
import { startGateway } from '../fixtures/gateway.ts'
import { openBrowser } from '../fixtures/page-browser.ts'

const yaml = `models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }`

t.test('the page shows and tries the routes, within its policy', async (t) => {
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(7)
  const page = await (await openBrowser(t)).newPage()
  const requests: string[] = []
  const complaints: string[] = []
  page.on('request', (request) => requests.push(request.url()))
  page.on('pageerror', ({ message }) => complaints.push(message))
  page.on('console', (line) => {
    if (line.type() === 'error') complaints.push(line.text())
  })
  await page.goto(`${gateway.url}/docs`)
  await page.locator('.opblock').nth(20).waitFor()
  t.equal(await page.getByRole('main').count(), 1, 'a screen reader finds one main part')

  t.comment('the key is entered, and a route is tried')
  await page.locator('.btn.authorize').click()
  await page.locator('#auth-bearer-value').fill(key)
  await page.locator('.auth-container .authorize').first().click()
  await page.locator('#auth-bearer-value').waitFor({ state: 'detached' })
  await page.locator('.btn-done').first().click()
  const balance = page.locator('.opblock[id$="getBalance"]')
  await balance.locator('.opblock-summary-control').click()
  await balance.locator('.try-out__btn').click()
  await balance.locator('.execute').click()
  const shown = balance.locator('.live-responses-table .highlight-code').first()
  t.match(await shown.textContent(), /"available": ?7\b/)

  const { origin } = new URL(gateway.url)
  const strange = requests.filter(
    (url) => !url.startsWith(`${origin}/`) && !url.startsWith('data:'),
  )
  t.strictSame(strange, [], 'no other host was asked')
  t.ok(requests.includes(`${origin}/api/billing/balance`))
  t.notOk(
    requests.some((url) => url.includes(key)),
    'the key is in no URL',
  )
  t.strictSame(complaints, [], 'nothing was against the policy')
  const kept = await page.evaluate(
    'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])',
  )
  t.equal(kept, '[{},{},""]', 'the key is nowhere but in the page')
})
