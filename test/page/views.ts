// Every view of the account page in light and dark, on a wide screen and on a phone: axe finds nothing, nothing jumps,
// nothing is cut off or wider than the screen; and what the page weighs.

import axe from 'axe-core'
import t from 'tap'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { noteShifts, openBrowser, settled, startPage, twoFrames } from '../fixtures/page-browser.ts'
import type { PageWorld } from '../fixtures/page-browser.ts'
import { writePast } from '../fixtures/page-past.ts'
import { playedPast } from '../fixtures/page-month.ts'
import { chat } from '../fixtures/backend-model.ts'

const browser = await openBrowser(t)
const views = ['Overview', 'Keys', 'Usage', 'Transactions', 'Playground', 'Limits'] as const

const script = chat({
  chunks: 3,
  text: (i) =>
    [
      '# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n',
      '```js\nlet x = 1\n```\n\n',
      '- one\n- two\n\n> [link](https://example.com)',
    ][i] ?? '',
})

/** An account that has used both models with three keys for a month, and has an old key. */
async function usedAccount(t: Test): Promise<PageWorld> {
  const world = await startPage(t, {
    browser,
    script,
    account: 'low_balance: 100000000, currency: { code: EUR, tokens: 100000 }',
  })
  const { gateway, account } = world
  const keyIds = await Promise.all(
    ['Website, production', 'Data pipeline', 'Notebook'].map(
      async (name) => (await gateway.keyFor(account.id, { name })).id,
    ),
  )
  const { id } = await gateway.keyFor(account.id, { name: 'Old '.repeat(40) })
  await gateway.admin('DELETE', `keys/${id}`)
  await writePast(t, world, playedPast({ keyIds, nowMs: Date.now() }))
  return world
}

async function visit(page: Page, view: string): Promise<void> {
  await page.getByRole('link', { name: view, exact: true }).click()
  await settled(page, view)
  if (view === 'Overview' || view === 'Usage') await page.locator('.chart canvas').first().waitFor()
  if (view === 'Playground') await answered(page)
}

async function answered(page: Page): Promise<void> {
  await page.getByLabel('Your message').fill('Say something')
  await page.keyboard.press('Enter')
  await page.locator('.figures:not(:empty)').waitFor()
}

async function violations(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source)
  const { violations: found } = (await page.evaluate('axe.run()')) as axe.AxeResults
  return found.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
  )
}

const phone = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true }
const kinds = {
  light: { colorScheme: 'light' },
  dark: { colorScheme: 'dark' },
  'a phone': phone,
} as const

for (const [kind, options] of Object.entries(kinds)) {
  t.test(`axe finds nothing in any view, dialog or failure, ${kind}`, async (t) => {
    const { enter, gateway, tab, visitor } = await usedAccount(t)
    const person = await visitor(options)
    const page = await enter('Overview', { visitor: person })
    for (const view of views) {
      await visit(page, view)
      t.same(await violations(page), [], view)
    }
    await visit(page, 'Overview')
    await page.getByText('Show the numbers').first().click()
    t.same(await violations(page), [], 'numbers of a chart')
    await visit(page, 'Keys')
    await page.getByRole('button', { name: 'Show one old key' }).click()
    for (const dialog of [
      'Create a key',
      'Rename: Notebook',
      'Rotate: Notebook',
      'Revoke: Notebook',
    ]) {
      await page.getByRole('button', { name: dialog }).click()
      t.same(await violations(page), [], dialog)
      await page.keyboard.press('Escape')
    }
    await page.getByRole('button', { name: 'Create a key' }).click()
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByLabel('The new key').waitFor()
    t.same(await violations(page), [], 'a new key')
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Revoke: Notebook' }).click()
    await page.getByRole('button', { name: 'Revoke the key' }).click()
    await page.getByText('That is not the name of the key.').waitFor()
    t.same(await violations(page), [], 'a wrong name')
    await person.setOffline(true)
    await page.getByRole('dialog').getByRole('textbox').fill('Notebook')
    await page.getByRole('button', { name: 'Revoke the key' }).click()
    await page.getByText('The service can’t be reached.').waitFor()
    t.same(await violations(page), [], 'a failure in a dialog')
    await page.keyboard.press('Escape')
    await page.getByRole('link', { name: 'Limits', exact: true }).click()
    await page.getByRole('button', { name: 'Try again' }).waitFor()
    t.same(await violations(page), [], 'a failure of a view')
    await person.setOffline(false)
    await page.getByRole('link', { name: 'Usage', exact: true }).click()
    await settled(page, 'Usage')
    await page.locator('.filters').getByLabel('From').fill('2999-01-01')
    await page.getByText('The first day has to be before the last one.').waitFor()
    t.same(await violations(page), [], 'days the wrong way round')
    const stranger = await tab({ browser: options })
    await stranger.goto(`${gateway.url}/account#link=wrong`)
    await stranger.getByText('This link does not work any more.').waitFor()
    t.same(await violations(stranger), [], 'the log-in screen')
  })
}

/** What is wider than its place, and so cut off or over something else. */
const cutOff = `(() => {
  const places = '.card, .row > *, .limit > *, dialog, dialog .field, dialog h2, td, .filters, .notice'
  return [...document.querySelectorAll(places)]
    .filter((one) => one.scrollWidth > one.clientWidth + 1 && !one.closest('.wide, .rows-head'))
    .map((one) => one.outerHTML.slice(0, 160))
})()`

/** Cards leave no hole in their frame. */
const holes = `(() => {
  const frame = document.querySelector('.cards').getBoundingClientRect()
  const cards = [...document.querySelectorAll('.card')].map((one) => one.getBoundingClientRect())
  const area = cards.reduce((sum, { width, height }) => sum + (width + 1) * (height + 1), 0)
  return area < frame.width * frame.height * 0.97
})()`

for (const [kind, options] of Object.entries({ 'a wide screen': {}, 'a phone': phone })) {
  t.test(`the largest numbers and the longest names fit, on ${kind}`, async (t) => {
    const world = await startPage(t, {
      browser,
      script,
      name: 'Name '.repeat(40),
      account: 'currency: { code: EUR, tokens: 1000 }',
      yaml: 'plans: { default: { allowance: { tokens: 9000000000000, every: month } } }',
    })
    const { gateway, account, enter } = world
    const name = 'x'.repeat(200)
    const budget = { tokens: 9_000_000_000_000, every: 'month' }
    const { id } = await gateway.keyFor(account.id, { name, budget })
    await gateway.admin('PATCH', `accounts/${account.id}`, { budget })
    const model = 'organisation/' + 'a-long-model-'.repeat(8)
    const usage = { requests: 1_000_000, prompt: 2e12, cached: 1e12, completion: 2e12, cost: 9e12 }
    await writePast(t, world, {
      usage: [{ at: Date.now() / 1000, model, keyId: id, ...usage }],
      journal: ['charge', 'topup'].map((type, i) => ({
        atMs: Date.now() - 9000 + i,
        type,
        amount: -9e14,
        balance: Number.MAX_SAFE_INTEGER,
        ...(type === 'charge' && { model, usage: [2e12, 1e12, 2e12], keyId: id }),
        meta: { note: 'note'.repeat(60), reference: `pi_${'y'.repeat(200)}` },
      })),
      account: { granted: String(Number.MAX_SAFE_INTEGER), spent: '1000000000' },
    })
    const page = await enter('Overview', { browser: options })
    // Not innerWidth: a phone widens that with its content.
    const width = kind === 'a phone' ? phone.viewport.width : 'innerWidth'
    const fits = async (what: string) => {
      t.same(await page.evaluate(cutOff), [], what)
      t.equal(
        await page.evaluate(`document.documentElement.scrollWidth <= ${width}`),
        true,
        `${what} is not wider than the screen`,
      )
    }
    t.equal(await page.evaluate(holes), false, 'the cards fill their frame')
    for (const view of views) {
      await visit(page, view)
      await fits(view)
    }
    await page.getByRole('link', { name: 'Keys', exact: true }).click()
    for (const action of ['Rename', 'Rotate', 'Revoke']) {
      await page.getByRole('button', { name: `${action}: ${name}` }).click()
      await fits(action)
      await page.keyboard.press('Escape')
    }
    await page.getByRole('button', { name: 'Create a key' }).click()
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByLabel('The new key').waitFor()
    await fits('a new key')
  })
}

t.test('nothing jumps while a view comes', async (t) => {
  const { link, tab } = await usedAccount(t)
  const page = await tab()
  await page.addInitScript(noteShifts)
  await page.goto(await link())
  await settled(page, 'Overview')
  for (const view of views) {
    // By script: after a click, the browser forgives what moves.
    await page.evaluate(`location.hash = '#${view.toLowerCase()}'`)
    await settled(page, view)
    if (view === 'Overview' || view === 'Usage')
      await page.locator('.chart canvas').first().waitFor()
    await page.evaluate(twoFrames)
  }
  t.same(await page.evaluate('shifts'), [])
})

t.test('the whole page weighs less than 250 KB, and only this server is asked', async (t) => {
  const { enter, gateway } = await usedAccount(t)
  const page = await enter('Overview')
  // What comes later, comes now.
  for (const view of views) await visit(page, view)
  const resources =
    (await page.evaluate(`[...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]
    .map(({ name, encodedBodySize }) => ({ name, bytes: encodedBodySize }))`)) as readonly {
      name: string
      bytes: number
    }[]
  const own = resources.filter(
    ({ name }) => name.startsWith(`${gateway.url}/account`) && !name.includes('/account/api/'),
  )
  const weight = own.reduce((sum, { bytes }) => sum + bytes, 0)
  t.comment(`${own.length} files, ${weight} bytes`)
  t.ok(own.length > 20 && weight > 50_000, 'they were counted')
  t.ok(weight < 250_000, `${weight} bytes`)
  t.same(
    resources.filter(({ name }) => !name.startsWith(gateway.url)),
    [],
  )
})

t.test('ten thousand transactions: each is there once, and the page stays quick', async (t) => {
  const world = await startPage(t, { browser })
  const count = 10_000
  const nowMs = Date.now()
  const journal = Array.from({ length: count }, (_, i) => ({
    atMs: nowMs - (count - i) * 60_000,
    type: 'charge',
    amount: -10,
    balance: 1_000_000 - 10 * (i + 1),
    model: 'gpt-mini',
    usage: [5, 0, 5] as const,
    meta: { request_id: `req_${String(i).padStart(32, '0')}` },
  }))
  await writePast(t, world, { journal })
  const page = await world.enter('Transactions')
  await page.evaluate(`(async () => {
    while (!document.querySelector('.list-end').textContent.includes('That is all.')) {
      scrollTo(0, document.documentElement.scrollHeight)
      await new Promise((done) => setTimeout(done, 20))
    }
  })()`)
  const ids = (await page.evaluate(
    `[...document.querySelectorAll('.row code')].map(({ textContent }) => textContent)`,
  )) as readonly string[]
  t.equal(ids.length, count)
  t.equal(new Set(ids).size, count)
  t.equal(ids[0], `req_${String(count - 1).padStart(32, '0')}`, 'the newest first')
  // Pages of rows that are far out of sight cost nothing. With all of them laid out, a frame takes ten times as long.
  const [all, laidOut] = (await page.evaluate(`(() => {
    const rows = [...document.querySelectorAll('.rows-page')].map((page) => page.firstElementChild)
    return [rows.length, rows.filter((row) => row.checkVisibility({ contentVisibilityAuto: true })).length]
  })()`)) as readonly [number, number]
  t.equal(all, count / 100)
  t.ok(laidOut > 0 && laidOut <= 3, `${laidOut} are laid out`)
})
