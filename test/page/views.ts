// Every view of the account page in light and dark, on a wide screen and on a phone: axe finds nothing, nothing jumps,
// nothing is wider than the screen; and what the page weighs.

import axe from 'axe-core'
import t from 'tap'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { openBrowser, settled, startPage } from '../fixtures/page-browser.ts'
import type { PageWorld } from '../fixtures/page-browser.ts'
import { writePast } from '../fixtures/page-past.ts'
import { playedPast } from '../fixtures/page-month.ts'
import { chat } from '../fixtures/backend-model.ts'

const browser = await openBrowser(t)
const views = ['Overview', 'Keys', 'Usage', 'Transactions', 'Playground', 'Limits'] as const

/** An account that has used both models with three keys for a month, and has an old key. */
async function usedAccount(t: Test): Promise<PageWorld> {
  const world = await startPage(t, {
    browser,
    script: chat({
      chunks: 3,
      text: (i) =>
        [
          '# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n',
          '```js\nlet x = 1\n```\n\n',
          '- one\n- two\n\n> [link](https://example.com)',
        ][i] ?? '',
    }),
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

for (const colorScheme of ['light', 'dark'] as const) {
  t.test(`axe finds nothing in any view, ${colorScheme}`, async (t) => {
    const { enter, gateway, tab } = await usedAccount(t)
    const page = await enter('Overview', { browser: { colorScheme } })
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
    const stranger = await tab({ browser: { colorScheme } })
    await stranger.goto(`${gateway.url}/account#link=wrong`)
    await stranger.getByText('This link does not work any more.').waitFor()
    t.same(await violations(stranger), [], 'the log-in screen')
  })
}

t.test('on a phone, 360 pixels wide, nothing is wider than the screen', async (t) => {
  const { enter } = await usedAccount(t)
  const page = await enter('Overview', {
    browser: { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true },
  })
  const width = () => page.evaluate('document.documentElement.scrollWidth')
  for (const view of views) {
    await visit(page, view)
    t.equal(await width(), 360, view)
  }
  await visit(page, 'Keys')
  await page.getByRole('button', { name: 'Create a key' }).click()
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  await page.getByLabel('The new key').waitFor()
  t.equal(await width(), 360, 'a new key')
  t.ok(Number(await page.evaluate(`document.querySelector('dialog').scrollWidth`)) <= 360)
})

t.test('nothing jumps while a view comes, and a view is there within a second', async (t) => {
  const { link, tab } = await usedAccount(t)
  const page = await tab()
  await page.addInitScript(`globalThis.shifts = []; new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) shifts.push(entry.value + ' ' + entry.sources.map(({ node }) => node?.outerHTML?.slice(0, 80)))
  }).observe({ type: 'layout-shift', buffered: true })`)
  await page.goto(await link())
  await settled(page, 'Overview')
  for (const view of views) {
    // By script: after a click, the browser forgives what moves.
    await page.evaluate(`location.hash = '#${view.toLowerCase()}'`)
    await settled(page, view)
    if (view === 'Overview' || view === 'Usage')
      await page.locator('.chart canvas').first().waitFor()
    await page.evaluate(
      'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))',
    )
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
  // Layout and paint of a frame with all rows there, the median of ten. With rows that are not left out it takes ten times as
  // long.
  const frameMs = Number(
    await page.evaluate(`(async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
    await frame()
    const times = []
    for (let i = 1; i <= 10; i++) {
      const began = performance.now()
      scrollTo(0, (document.documentElement.scrollHeight / 10) * i)
      document.body.style.paddingTop = i + 'px'
      await frame()
      times.push(performance.now() - began)
    }
    return times.sort((a, b) => a - b)[5]
  })()`),
  )
  t.comment(`a frame: ${frameMs} ms`)
  t.ok(frameMs < 120, `${frameMs} ms`)
})
