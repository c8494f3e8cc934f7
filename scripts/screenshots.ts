// `npm run screenshots`: pictures of each view of the account page, in light, in dark and on a phone, of an account with
// a month behind it: docs/images/account. Prints how long the first paint took. Needs a Redis and Debian's Chromium, which
// are installed as for the tests.

import { mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { openBrowser, settled, startPage } from '../test/fixtures/page-browser.ts'
import type { PageWorld } from '../test/fixtures/page-browser.ts'
import { playedPast } from '../test/fixtures/page-month.ts'
import { writePast } from '../test/fixtures/page-past.ts'
import { chat } from '../test/fixtures/backend-model.ts'
import { teardownOf } from '../test/fixtures/teardown.ts'

const folder = resolve(import.meta.dirname, '../docs/images/account')
const views = ['Overview', 'Keys', 'Usage', 'Transactions', 'Playground', 'Limits'] as const
const mostBytes = 120_000
/** The first one pays for a cold browser. */
const paints = 3

const wide = { viewport: { width: 1200, height: 720 } }
const kinds: Readonly<Record<string, BrowserContextOptions>> = {
  light: { ...wide, colorScheme: 'light' },
  dark: { ...wide, colorScheme: 'dark' },
  phone: { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true },
}

await using undo = new AsyncDisposableStack()
const t = {
  ...teardownOf(undo),
  fail(message: string): never {
    throw new Error(message)
  },
}
const browser = await openBrowser(t)
const world = await startPage(t, {
  browser,
  script: chat({ chunks: answer().length, text: (i) => answer()[i] ?? '' }),
  account: 'currency: { code: EUR, tokens: 1000000 }, low_balance: 1000000',
  name: 'Acme Ltd',
})
await fill(world)
await mkdir(folder, { recursive: true })
await sayFirstPaint(world)
for (const [kind, options] of Object.entries(kinds)) {
  const page = await world.enter('Overview', { browser: { reducedMotion: 'reduce', ...options } })
  for (const view of views) {
    await visit(page, view)
    await take(page, `${view.toLowerCase()}-${kind}`)
  }
}
// At the end: each picture makes a key.
for (const [kind, options] of Object.entries(kinds)) {
  const page = await world.enter('Keys', { browser: { reducedMotion: 'reduce', ...options } })
  await page.getByRole('button', { name: 'Create a key' }).click()
  await page.getByRole('textbox', { name: 'Name' }).fill('Website, staging')
  await page.getByRole('button', { name: 'Create', exact: true }).click()
  await page.getByLabel('The new key').waitFor()
  await take(page, `new-key-${kind}`)
}

async function fill({ gateway, account }: PageWorld): Promise<void> {
  const names = ['Website, production', 'Data pipeline', 'Notebook of Maria']
  const fields = [{}, { scopes: ['chat'], models: ['gpt-mini'] }, { scopes: ['chat', 'billing'] }]
  const keyIds: string[] = []
  for (const [i, name] of names.entries()) {
    const { id, key } = await gateway.keyFor(account.id, { name, ...fields[i] })
    keyIds.push(id)
    const messages = [{ role: 'user', content: 'Hi' }]
    await (await gateway.call('/v1/chat/completions', key, { model: 'gpt-mini', messages })).text()
  }
  const { data } = (await (await gateway.admin('GET', `accounts/${account.id}/keys`)).json()) as {
    readonly data: readonly { readonly id: string; readonly name: string }[]
  }
  // The account's first key, of the fixture.
  for (const { id, name } of data) if (name === '') await gateway.admin('DELETE', `keys/${id}`)
  await writePast(t, world, playedPast({ keyIds, nowMs: Date.now() }))
}

async function visit(page: Page, view: string): Promise<void> {
  await page.getByRole('link', { name: view, exact: true }).click()
  await settled(page, view)
  if (view === 'Overview' || view === 'Usage') await page.locator('.chart canvas').first().waitFor()
  if (view === 'Playground') await ask(page)
  await page.evaluate('document.fonts.ready')
}

async function ask(page: Page): Promise<void> {
  await page.getByLabel('Your message').fill('What is a prepaid balance good for?')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.locator('.figures:not(:empty)').waitFor()
}

function answer(): readonly string[] {
  const text = `A **prepaid balance** sets a limit that nobody can pass:

- A request is let through only if the balance covers it.
- What was held and not used comes back at once.
- A leaked key costs at most what is left.

\`\`\`python
client = OpenAI(base_url="https://chat.example.com/v1")
\`\`\`
`
  return text.match(/\s*\S+\s*/g) ?? []
}

async function take(page: Page, name: string): Promise<void> {
  const picture = await page.screenshot({ animations: 'disabled', caret: 'hide' })
  await writeFile(join(folder, `${name}.png`), picture)
  const isLarge = picture.length > mostBytes
  console.log(`${name}.png, ${picture.length} bytes${isLarge ? ': TOO LARGE' : ''}`)
  if (isLarge) process.exitCode = 1
}

async function sayFirstPaint({ visitor, tab, link }: PageWorld): Promise<void> {
  const times: number[] = []
  for (let i = 0; i < paints; i++) {
    const page = await tab({ visitor: await visitor() })
    await page.goto(await link())
    await settled(page, 'Overview')
    const entries = `performance.getEntriesByName('first-contentful-paint')[0]?.startTime`
    times.push(Number(await page.evaluate(entries)))
    await page.close()
  }
  console.log(`first paint after ${times.map((ms) => ms.toFixed(0)).join(', ')} ms`)
  if (!(Math.min(...times) < 1000)) process.exitCode = 1
}
