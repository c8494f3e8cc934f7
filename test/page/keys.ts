// The way of a key on the account page, from its making to its end, as its owner sees it.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import type { Page } from 'playwright-core'
import { openBrowser, settled, shows, startPage } from '../fixtures/page-browser.ts'
import { chat } from '../fixtures/backend-model.ts'
import { codeOf } from '../fixtures/gateway.ts'

const browser = await openBrowser(t)
const run = promisify(execFile)
const hello = { model: 'gpt-mini', messages: [{ role: 'user', content: 'Hi' }] }

/** From the open dialog. */
async function newKey(page: Page): Promise<string> {
  const text = await page.getByLabel('The new key').textContent()
  await page.getByRole('button', { name: 'Done' }).click()
  return text ?? ''
}

t.test('create, use, see the charge, rename, rotate, revoke: refused', async (t) => {
  const { enter, gateway } = await startPage(t, { browser, script: chat({ chunks: 7 }) })
  const page = await enter('Keys')
  await page.getByRole('button', { name: 'Create a key' }).click()
  await page.getByRole('textbox', { name: 'Name' }).fill('Website')
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  await shows(page, 'It is shown only this once.')
  const sample = (await page.getByRole('tabpanel').locator('code').textContent()) ?? ''
  const key = await newKey(page)
  t.match(key, /^tg_live_/)
  t.ok(sample.includes(`curl ${gateway.url}/v1/chat/completions`) && sample.includes(key), sample)
  const row = page.getByRole('row', { name: /Website/ })
  await row.getByText(`tg_live_…${key.slice(-4)}`).waitFor()
  t.notOk((await page.content()).includes(key), 'the text of the key is gone')

  const { stdout } = await run('sh', ['-c', sample])
  t.match(JSON.parse(stdout), { object: 'chat.completion', model: 'gpt-mini' }, 'as it is shown')
  await page.getByRole('link', { name: 'Transactions' }).click()
  const charge = page.getByRole('row').filter({ hasText: 'gpt-mini' })
  await charge.getByText(/in, 7 out/).waitFor()
  t.match(await charge.locator('.tokens').innerText(), /^\d+ in, 7 out\s+reported by the model$/)

  await page.getByRole('link', { name: 'Keys' }).click()
  await page.getByRole('button', { name: 'Rename: Website' }).click()
  await page.getByRole('textbox', { name: 'Name' }).fill('Shop')
  await page.getByRole('button', { name: 'Rename', exact: true }).click()
  await page.getByRole('row', { name: /Shop/ }).waitFor()

  await page.getByRole('button', { name: 'Rotate: Shop' }).click()
  await page.getByLabel('The old key works for').selectOption('No longer: it ends now')
  await page.getByRole('button', { name: 'Rotate', exact: true }).click()
  const next = await newKey(page)
  t.equal(await codeOf(await gateway.call('/v1/chat/completions', key, hello)), 'api_key_revoked')
  t.equal((await gateway.call('/v1/chat/completions', next, hello)).status, 200)

  await page.getByRole('button', { name: 'Revoke: Shop' }).click()
  await page.getByLabel('Type “Shop” to confirm').fill('Shopp')
  await page.getByRole('button', { name: 'Revoke the key' }).click()
  await shows(page, 'That is not the name of the key.')
  t.equal((await gateway.call('/v1/chat/completions', next, hello)).status, 200, 'still there')
  await page.getByLabel('Type “Shop” to confirm').fill('Shop')
  await page.getByRole('button', { name: 'Revoke the key' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  t.equal(await codeOf(await gateway.call('/v1/chat/completions', next, hello)), 'api_key_revoked')
})

t.test('a key of few models and scopes, that expires, is that narrow', async (t) => {
  const { enter, gateway } = await startPage(t, { browser, script: chat() })
  const page = await enter('Keys')
  await page.getByRole('button', { name: 'Create a key' }).click()
  await page.getByRole('textbox', { name: 'Name' }).fill('Narrow')
  await page.getByLabel('Expires').selectOption('In 7 days')
  await page.getByLabel('Files').uncheck()
  await page.getByLabel('gpt-large').check()
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  const key = await newKey(page)
  const refused = await gateway.call('/v1/chat/completions', key, hello)
  t.equal(await codeOf(refused), 'model_not_allowed')
  t.equal(await codeOf(await gateway.call('/api/files', key)), 'insufficient_scope')
  const row = page.getByRole('row', { name: /Narrow/ })
  await row.getByText('in 7 days').waitFor()
  await row.getByText('gpt-large').waitFor()
})

t.test('a key that is made in one tab is there in the other, and so is its end', async (t) => {
  const { enter, tab, visitor, gateway } = await startPage(t, { browser })
  const person = await visitor()
  const one = await enter('Keys', { visitor: person })
  const two = await tab({ visitor: person })
  await two.goto(`${gateway.url}/account#keys`)
  await settled(two, 'Keys')
  await one.getByRole('button', { name: 'Create a key' }).click()
  await one.getByRole('textbox', { name: 'Name' }).fill('Both')
  await one.getByRole('button', { name: 'Create', exact: true }).click()
  await newKey(one)
  await two.getByRole('link', { name: 'Usage' }).click()
  await two.getByRole('link', { name: 'Keys' }).click()
  await two.getByRole('button', { name: 'Revoke: Both' }).click()
  await two.getByLabel('Type “Both” to confirm').fill('Both')
  await two.getByRole('button', { name: 'Revoke the key' }).click()
  await two.getByRole('dialog').waitFor({ state: 'detached' })
  // The first tab still shows it, and is told.
  await one.getByRole('button', { name: 'Rotate: Both' }).click()
  await one.getByRole('button', { name: 'Rotate', exact: true }).click()
  await one.getByRole('dialog').getByRole('alert').waitFor()
})

t.test('all of it by keyboard alone', async (t) => {
  const { enter, gateway } = await startPage(t, { browser, script: chat() })
  const page = await enter('Overview')
  const { keyboard } = page
  await tabTo(page, 'Skip to the content')
  await keyboard.press('Enter')
  t.equal(await focused(page), 'Overview', 'the link leads to the heading')
  await page.reload()
  await settled(page, 'Overview')
  await tabTo(page, 'Keys')
  await keyboard.press('Enter')
  await settled(page, 'Keys')
  await tabTo(page, 'Create a key')
  await keyboard.press('Enter')
  await keyboard.type('By hand')
  await keyboard.press('Enter')
  await page.getByLabel('The new key').waitFor()
  t.equal(await focused(page), 'Copy', 'the next thing to do has the focus')
  const key = (await page.getByLabel('The new key').textContent()) ?? ''
  await tabTo(page, 'curl')
  await keyboard.press('ArrowRight')
  t.equal(await focused(page), 'Python')
  await keyboard.press('Escape')
  await page.locator('dialog').waitFor({ state: 'detached' })
  await page.getByRole('row', { name: /By hand/ }).waitFor()
  await tabTo(page, 'Revoke')
  await keyboard.press('Enter')
  await keyboard.type('By hand')
  await keyboard.press('Enter')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  t.equal(await codeOf(await gateway.call('/v1/chat/completions', key, hello)), 'api_key_revoked')
})

const focused = (page: Page) =>
  page.evaluate("document.activeElement?.textContent ?? ''") as Promise<string>

async function tabTo(page: Page, text: string): Promise<void> {
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab')
    if ((await focused(page)) === text) return
  }
  throw new Error(`the Tab key does not lead to ${text}`)
}
