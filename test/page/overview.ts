// What the overview says of the money: what is left, and why nothing is.

import t from 'tap'
import { openBrowser, shows, startPage } from '../fixtures/page-browser.ts'
import { chat } from '../fixtures/backend-model.ts'

const browser = await openBrowser(t)
const hello = { model: 'gpt-mini', messages: [{ role: 'user', content: 'Hi' }] }

t.test('an allowance and budgets are shown with what is left of them', async (t) => {
  const { enter, gateway, account } = await startPage(t, {
    browser,
    tokens: 100,
    script: chat({ chunks: 2 }),
    yaml: 'plans: { default: { allowance: { tokens: 5000, every: month } } }',
  })
  const budget = { tokens: 4000, every: 'week' }
  await gateway.admin('PATCH', `accounts/${account.id}`, { budget })
  const fields = { name: 'Capped', budget: { tokens: 1000, every: 'day' } }
  const { key } = await gateway.keyFor(account.id, fields)
  const answer = await gateway.call('/v1/chat/completions', key, { ...hello, max_tokens: 10 })
  t.equal(answer.status, 200)
  const { usage } = (await answer.json()) as { readonly usage: { readonly total_tokens: number } }
  const used = usage.total_tokens
  const page = await enter('Overview')
  const card = (label: string) => page.locator('.card', { hasText: label })
  await card('Allowance of the month')
    .getByText((5000 - used).toLocaleString('en-GB'))
    .waitFor()
  await card('Allowance of the month')
    .getByText(/^left of 5,000; renewed (in|tomorrow|next)/)
    .waitFor()
  await card('Budget of the week')
    .getByText((4000 - used).toLocaleString('en-GB'))
    .waitFor()
  t.notMatch(await page.getByRole('main').innerText(), /NaN|undefined|null/)
  await page.getByRole('link', { name: 'Keys' }).click()
  await page
    .getByRole('row', { name: /Capped/ })
    .getByText(`${used} of 1,000 a day`)
    .waitFor()
})

t.test('an empty balance and a budget that is used up are told apart', async (t) => {
  const { enter, gateway, account } = await startPage(t, { browser, tokens: 0 })
  const page = await enter('Overview')
  await shows(page, /Nothing is left of the balance: requests are refused until it is topped up/)
  await gateway.admin('POST', `accounts/${account.id}/topup`, { amount: 100 })
  await gateway.admin('PATCH', `accounts/${account.id}`, { budget: { tokens: 0, every: 'day' } })
  await page.reload()
  await shows(page, /The budget is used up/)
  t.pass()
})
