// The text of a key on the account page: shown once, copied, and then in no place of the browser. And what is left of an
// account in tabs that have not heard of its log-out.

import t from 'tap'
import type { Page } from 'playwright-core'
import { openBrowser, settled, shows, startPage, twoTabs } from '../fixtures/page-browser.ts'
import { chat } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'

const browser = await openBrowser(t)

async function makeKey(page: Page, name = 'Website'): Promise<string> {
  await page.getByRole('button', { name: 'Create a key' }).click()
  await page.getByRole('textbox', { name: 'Name' }).fill(name)
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  const key = (await page.getByLabel('The new key').textContent()) ?? ''
  if (!key.startsWith('tg_live_')) throw new Error(`no key: ${key}`)
  return key
}

/** Everything that a page can keep. */
const kept = (page: Page) =>
  page.evaluate(`(async () => JSON.stringify([
    document.documentElement.outerHTML,
    [...document.querySelectorAll('input, textarea')].map(({ value }) => value),
    location.href, document.title, document.cookie, history.state, name,
    { ...sessionStorage }, { ...localStorage },
    await indexedDB.databases(), await caches.keys(),
    Object.keys(globalThis).filter((name) => typeof globalThis[name] === 'string').map((name) => globalThis[name]),
  ]))()`) as Promise<string>

t.test('a new key is kept nowhere once its dialog is closed, however that was', async (t) => {
  const { enter } = await startPage(t, { browser })
  const page = await enter('Keys')
  const ways: Readonly<Record<string, () => Promise<unknown>>> = {
    'by its button': () => page.getByRole('button', { name: 'Done' }).click(),
    'by its cross': () => page.getByRole('button', { name: 'Close' }).click(),
    'by Escape': () => page.keyboard.press('Escape'),
    'by the back button': () => page.goBack(),
    // A page that the browser keeps, to show it again at the press of its back button.
    'by leaving the page': () => page.evaluate(`dispatchEvent(new Event('pagehide'))`),
  }
  for (const [how, close] of Object.entries(ways)) {
    await page.getByRole('link', { name: 'Keys', exact: true }).click()
    const key = await makeKey(page, how)
    t.ok((await kept(page)).includes(key), 'it is shown')
    await close()
    await page.locator('dialog').waitFor({ state: 'detached' })
    t.notOk((await kept(page)).includes(key.slice(12)), `gone ${how}`)
  }
  await page.goForward()
  await settled(page, 'Keys')
  t.equal(await page.getByRole('dialog').count(), 0)
})

t.test('a slip of the mouse does not close a key that is shown once', async (t) => {
  const { enter } = await startPage(t, { browser })
  const page = await enter('Keys')
  await page.getByRole('button', { name: 'Create a key' }).click()
  await page.mouse.click(5, 5)
  await page.locator('dialog').waitFor({ state: 'detached' })
  await makeKey(page)
  await page.mouse.click(5, 5)
  t.ok(await page.getByLabel('The new key').isVisible())
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('row', { name: /Website/ }).waitFor()
  await page.getByRole('button', { name: 'Rotate: Website' }).click()
  await page.getByRole('button', { name: 'Rotate', exact: true }).click()
  await page.getByLabel('The new key').waitFor()
  await page.mouse.click(5, 5)
  t.ok(await page.getByLabel('The new key').isVisible())
})

t.test('copy puts the key on the clipboard, and says so where a dialog is open', async (t) => {
  const { enter, visitor, gateway } = await startPage(t, { browser })
  const person = await visitor()
  await person.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: gateway.url })
  const page = await enter('Keys', { visitor: person })
  const key = await makeKey(page)
  await page.getByRole('button', { name: 'Copy' }).first().click()
  await page.getByRole('button', { name: 'Copied' }).waitFor()
  t.equal(await page.evaluate('navigator.clipboard.readText()'), key)
  // Outside of a modal dialog nothing is read out.
  t.equal(await page.getByRole('dialog').getByRole('status').textContent(), 'Copied')
  await page.getByRole('button', { name: 'Copy' }).last().click()
  const sample = String(await page.evaluate('navigator.clipboard.readText()'))
  t.ok(sample.startsWith('curl ') && sample.includes(key))
})

t.test('where copying is not allowed, or not there, the key is selected', async (t) => {
  const { enter } = await startPage(t, { browser })
  for (const clipboard of [`{ writeText: () => Promise.reject(new Error('no')) }`, 'undefined']) {
    const page = await enter('Keys')
    const key = await makeKey(page)
    await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: ${clipboard} })`)
    await page.getByRole('button', { name: 'Copy' }).first().click()
    await shows(page, 'Select and copy it')
    t.equal(await page.evaluate('String(getSelection())'), key)
  }
})

t.test('back after a log-out shows nothing of the account', async (t) => {
  const { enter } = await startPage(t, { browser, name: 'Acme Secrets' })
  const page = await enter('Keys')
  await makeKey(page)
  await page.getByRole('button', { name: 'Done' }).click()
  await page.getByRole('link', { name: 'Limits' }).click()
  await settled(page, 'Limits')
  await page.getByRole('button', { name: 'Log out' }).click()
  await shows(page, 'You have logged out.')
  for (let i = 0; i < 2; i++) {
    await page.goBack()
    await page.getByRole('heading', { name: 'Log in to your account' }).waitFor()
    t.notMatch(await kept(page), /Acme Secrets|tg_live_|acct_/)
  }
})

t.test('a page that the browser kept asks whether the session goes on', async (t) => {
  const { one, two } = await twoTabs(await startPage(t, { browser }), 'Keys')
  await one.getByRole('button', { name: 'Log out' }).click()
  await shows(one, 'You have logged out.')
  await two.evaluate(`dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))`)
  await shows(two, 'You have been logged out')
})

t.test('a log-out in another tab ends a chat in mid-answer', async (t) => {
  const gate = new Gate()
  const world = await startPage(t, { browser, script: chat({ chunks: 4, gate }) })
  const { one: page, two } = await twoTabs(world, 'Playground')
  await page.getByLabel('Your message').fill('Go on')
  await page.keyboard.press('Enter')
  gate.next(2)
  await page.locator('.markdown').getByText('w0').waitFor()
  await two.getByRole('button', { name: 'Log out' }).click()
  await shows(two, 'You have logged out.')
  gate.open()
  await shows(page, 'You have been logged out')
  t.equal(await page.evaluate('sessionStorage.length'), 0)
  t.notMatch(await kept(page), /w0|Go on/)
})
