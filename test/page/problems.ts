// What fails on the way to the account page's data is said in words, and can be tried again.

import t from 'tap'
import { openBrowser, settled, shows, startPage } from '../fixtures/page-browser.ts'
import { chat } from '../fixtures/backend-model.ts'
import { until } from '../fixtures/until.ts'

const browser = await openBrowser(t)

t.test('without a network, and with it again', async (t) => {
  const { enter, visitor } = await startPage(t, { browser })
  const person = await visitor()
  const page = await enter('Overview', { visitor: person })
  await person.setOffline(true)
  await page.getByRole('link', { name: 'Limits' }).click()
  await shows(page, 'The service can’t be reached.')
  await person.setOffline(false)
  await page.getByRole('button', { name: 'Try again' }).click()
  await shows(page, 'Requests a minute')
})

t.test('while Redis is away, and with it again', async (t) => {
  const { enter, gateway } = await startPage(t, { browser })
  const page = await enter('Overview')
  await gateway.redis.stop()
  await page.getByRole('link', { name: 'Transactions' }).click()
  await shows(page, /The accounts can’t be reached at the moment\. Nothing was charged\. Wait/)
  await shows(page, /req_[0-9a-f]{32}/)
  await gateway.redis.restart()
  // Nothing of the account is left: this Redis keeps nothing. So the log-in is over, too.
  const login = page.getByRole('heading', { name: 'Log in to your account' })
  await until(async () => {
    if (await login.isVisible()) return true
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.locator('.loading').waitFor({ state: 'detached' })
    return false
  })
})

t.test('too many questions in a minute', async (t) => {
  const { enter } = await startPage(t, {
    browser,
    script: chat({ chunks: 1 }),
    yaml: 'plans: { default: { tokens_per_minute: 1000000, requests_per_minute: 3 } }',
  })
  const page = await enter('Playground')
  for (let i = 0; i < 4; i++) {
    await page.getByLabel('Your message').fill(`Question ${i}`)
    await page.keyboard.press('Enter')
    await page.locator('.figures:not(:empty), [role=alert]').nth(i).waitFor()
    if (await page.getByRole('alert').isVisible()) break
  }
  await shows(page, /Too many requests in a short time\. Wait \d+ seconds?\./)
})

t.test('a view that does not exist leads to the first one', async (t) => {
  const { enter } = await startPage(t, { browser })
  const page = await enter('Keys')
  await page.evaluate(`location.hash = '#<b>nothing/here?x=%'`)
  await settled(page, 'Overview')
  await shows(page, 'Available')
})
