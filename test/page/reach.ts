// The account page for those who don't use it with a mouse, all colours and all movement: the Tab key reaches every
// control, the focus is seen and never lost, nothing moves where a reader asked for that, and without JavaScript there
// is a sentence.

import t from 'tap'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { openBrowser, settled, startPage } from '../fixtures/page-browser.ts'
import type { PageWorld } from '../fixtures/page-browser.ts'
import { chat } from '../fixtures/backend-model.ts'
import { playedPast } from '../fixtures/page-month.ts'
import { writePast } from '../fixtures/page-past.ts'
import { Gate } from '../fixtures/gate.ts'

const browser = await openBrowser(t)
const views = ['Overview', 'Keys', 'Usage', 'Transactions', 'Playground', 'Limits'] as const

async function usedAccount(t: Test): Promise<PageWorld> {
  const world = await startPage(t, { browser, script: chat() })
  const { gateway, account } = world
  const { id } = await gateway.keyFor(account.id, { name: 'Website' })
  const { id: old } = await gateway.keyFor(account.id, { name: 'Old' })
  await gateway.admin('DELETE', `keys/${old}`)
  await writePast(t, world, playedPast({ keyIds: [id], nowMs: Date.now() }))
  return world
}

/** Controls that a person sees within `root`, numbered in the page. */
const mark = (root: string) => `(() => {
  for (const old of document.querySelectorAll('[data-walk]')) delete old.dataset.walk
  const all = 'a[href], button, input, select, textarea, summary, [tabindex]'
  return [...document.querySelectorAll('${root} :is(' + all + ')')]
    .filter((one) => one.tabIndex >= 0 && !one.disabled)
    .filter((one) => one.checkVisibility({ visibilityProperty: true }))
    .map((one, i) => {
      one.dataset.walk = i
      return one.getAttribute('aria-label') ?? one.textContent.slice(0, 40)
    })
})()`

/** What has the focus, and what a person sees of that. */
const look = `(() => {
  const one = document.activeElement
  const rect = one.getBoundingClientRect()
  const [left, right] = [Math.max(0, rect.left), Math.min(innerWidth, rect.right)]
  const [top, bottom] = [Math.max(0, rect.top), Math.min(innerHeight, rect.bottom)]
  const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2)
  const inSight = left < right && top < bottom && (one.contains(hit) || hit?.contains(one))
  // The frame around a text and its buttons shows the focus of the text.
  const hasOutline = (of) => getComputedStyle(of).outlineStyle !== 'none'
  return {
    walk: one.dataset.walk,
    html: one.outerHTML.slice(0, 120),
    isSeen: hasOutline(one) || hasOutline(one.closest('form') ?? one),
    inSight: Boolean(inSight),
    hit: hit?.outerHTML.slice(0, 80),
  }
})()`

interface Look {
  readonly walk?: string
  readonly html: string
  readonly isSeen: boolean
  readonly inSight: boolean
  readonly hit?: string
}

/** Presses Tab until the focus has left the page's controls, forwards and then backwards. */
async function walk(t: Test, page: Page, { root, name }: { root: string; name: string }) {
  const controls = (await page.evaluate(mark(root))) as readonly string[]
  t.ok(controls.length > 0, `${name}: ${controls.length} controls`)
  for (const step of ['Tab', 'Shift+Tab']) {
    const reached = new Set<string>()
    // A field for a date has several stops.
    for (let i = 0; i < controls.length * 4 && reached.size < controls.length; i++) {
      await page.keyboard.press(step)
      const { walk, html, isSeen, inSight, hit } = (await page.evaluate(look)) as Look
      if (walk === undefined || reached.has(walk)) continue
      if (!inSight) t.fail(`${name}: out of sight, or behind ${hit}: ${html}`)
      // A field for a date shows it at its parts.
      if (isSeen) reached.add(walk)
    }
    t.same(
      controls.filter((_, i) => !reached.has(String(i))),
      [],
      `${name}: ${step} reaches all, and each shows the focus`,
    )
  }
}

for (const [kind, options] of Object.entries({
  'a wide screen': {},
  'a phone': { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true },
})) {
  t.test(`the Tab key reaches every control, and it is seen, on ${kind}`, async (t) => {
    const { enter } = await usedAccount(t)
    const page = await enter('Overview', { browser: options })
    for (const view of views) {
      await page.getByRole('link', { name: view, exact: true }).click()
      await settled(page, view)
      if (view === 'Transactions') await allRows(page)
      await walk(t, page, { root: 'body', name: view })
    }
    await page.getByRole('link', { name: 'Keys', exact: true }).click()
    await settled(page, 'Keys')
    for (const action of ['Rename', 'Rotate', 'Revoke']) {
      await page.getByRole('button', { name: `${action}: Website` }).click()
      await walk(t, page, { root: 'dialog', name: action })
      await page.keyboard.press('Escape')
    }
    await page.getByRole('button', { name: 'Create a key' }).click()
    await page.getByLabel('gpt-large').waitFor()
    await walk(t, page, { root: 'dialog', name: 'create' })
    await page.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByLabel('The new key').waitFor()
    await walk(t, page, { root: 'dialog', name: 'a new key' })
  })
}

/** Its button goes when the last rows have come. */
async function allRows(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Show more' }).scrollIntoViewIfNeeded()
  await page.locator('.list-end').getByText('That is all.').waitFor()
  await page.evaluate('scrollTo(0, 0)')
}

const focused = (page: Page) =>
  page.evaluate(`(() => {
    const one = document.activeElement
    return one === document.body ? 'nothing' : (one.getAttribute('aria-label') ?? one.textContent)
  })()`) as Promise<string>

t.test('the focus is not lost when what had it is drawn anew, or is gone', async (t) => {
  const { enter } = await usedAccount(t)
  const page = await enter('Keys')
  const press = async (name: string) => {
    await page.getByRole('button', { name, exact: true }).focus()
    await page.keyboard.press('Enter')
  }
  const gone = () => page.locator('dialog').waitFor({ state: 'detached' })
  await press('Show one old key')
  t.equal(await focused(page), 'Hide old keys')
  await press('Rename: Website')
  await page.keyboard.type('Shop')
  await page.keyboard.press('Enter')
  await page.getByRole('row', { name: /Shop/ }).waitFor()
  t.equal(await focused(page), 'Rename: Shop')
  await press('Rotate: Shop')
  await press('Rotate')
  await page.getByLabel('The new key').waitFor()
  await page.getByRole('button', { name: 'Rotate: Shop' }).nth(1).waitFor({ state: 'attached' })
  await press('Done')
  await gone()
  t.equal(await focused(page), 'Rotate: Shop')
  await press('Create a key')
  await page.keyboard.type('Third')
  await page.keyboard.press('Enter')
  await page.getByLabel('The new key').waitFor()
  await page.keyboard.press('Escape')
  await gone()
  t.equal(await focused(page), 'Create a key')
  await page.getByRole('row', { name: /Third/ }).waitFor()
  await press('Revoke: Third')
  await page.keyboard.type('Third')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Revoke: Third' }).waitFor({ state: 'detached' })
  t.equal(await focused(page), 'Create a key', 'the button is gone with its key')
  await page.getByRole('link', { name: 'Transactions', exact: true }).click()
  await settled(page, 'Transactions')
  await page.getByRole('button', { name: 'Show more' }).focus()
  await page.locator('.list-end').getByText('That is all.').waitFor()
  t.equal(await focused(page), 'That is all.')
})

t.test('nothing moves where the reader wants that, and elsewhere what waits does', async (t) => {
  const gate = new Gate()
  for (const [reducedMotion, moving] of [
    ['reduce', 0],
    ['no-preference', 3],
  ] as const) {
    const { enter } = await startPage(t, { browser, script: chat({ gate }) })
    const page = await enter('Overview', { browser: { reducedMotion } })
    const held = Promise.withResolvers<void>()
    await page.route('**/account/api/limits', async (route) => {
      await held.promise
      await route.continue()
    })
    await page.getByRole('link', { name: 'Limits' }).click()
    await page.locator('.loading').waitFor()
    t.equal(await page.evaluate('document.getAnimations().length'), moving, reducedMotion)
    held.resolve()
    await settled(page, 'Limits')
    t.equal(await page.evaluate('document.getAnimations().length'), 0)
  }
})

t.test('without JavaScript there is a sentence', async (t) => {
  const { tab, gateway } = await startPage(t, { browser })
  const page = await tab({ browser: { javaScriptEnabled: false, colorScheme: 'dark' } })
  await page.goto(`${gateway.url}/account`)
  const words = page.locator('noscript p')
  t.ok(await words.isVisible())
  t.equal(await words.textContent(), 'This page needs JavaScript.')
})
