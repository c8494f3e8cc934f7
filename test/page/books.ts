// Usage and transactions as somebody reads them who does the books: filtered, downloaded, and by the days of their own
// time zone. Each download is read, and has what the page shows.

import { match } from 'node:assert'
import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { openBrowser, settled, shows, startPage } from '../fixtures/page-browser.ts'
import type { PageWorld } from '../fixtures/page-browser.ts'
import { parseCsv } from '../fixtures/csv.ts'
import { writePast } from '../fixtures/page-past.ts'
import type { UsedHour } from '../fixtures/page-past.ts'
import { until } from '../fixtures/until.ts'

const browser = await openBrowser(t)

type Row = Readonly<Record<string, string>>

/** What a click on the link brings, by its titles. */
async function downloaded(page: Page): Promise<readonly Row[]> {
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Download CSV' }).click(),
  ])
  match(download.suggestedFilename(), /^(usage|transactions)\.csv$/)
  const [titles = [], ...lines] = await parseCsv(await readFile(await download.path(), 'utf8'))
  return lines.map((line) => Object.fromEntries(titles.map((title, i) => [title, line[i] ?? ''])))
}

const field = (page: Page, name: string) =>
  page
    .locator('.filters label')
    .filter({ has: page.locator(`span:text-is("${name}")`) })
    .locator('select, input')

const atMs = (iso: string) => Date.parse(iso)
const india = { timezoneId: 'Asia/Kolkata' }

async function accountWithBooks(test: Test): Promise<PageWorld> {
  const world = await startPage(test, { browser })
  const { gateway, account } = world
  const { id: website } = await gateway.keyFor(account.id, { name: 'Website' })
  const { id: notebook } = await gateway.keyFor(account.id, { name: 'Notebook' })
  const charge = (iso: string, amount: number, model: string, keyId: string) => ({
    atMs: atMs(iso),
    type: 'charge',
    amount,
    balance: 1000,
    model,
    keyId,
    usage: [5, 0, 5] as const,
  })
  await writePast(test, world, {
    journal: [
      charge('2025-03-10T18:10:00Z', -11, 'gpt-mini', website), // 23:40 in India
      charge('2025-03-10T18:40:00Z', -12, 'gpt-large', notebook), // 00:10 of the next day
      {
        atMs: atMs('2025-03-11T10:00:00Z'),
        type: 'adjustment',
        amount: 13,
        balance: 1000,
        meta: { note: '=HYPERLINK("https://evil.example")' },
      },
      charge('2025-03-11T18:29:59Z', -14, 'gpt-mini', notebook), // the last second of that day
      charge('2025-03-11T18:30:00Z', -15, 'gpt-of-old', notebook),
    ],
  })
  for (const [amount, reference] of [
    [16, 'pi_one'],
    [17, 'pi_two'],
  ])
    await gateway.admin('POST', `accounts/${account.id}/topup`, { amount, reference })
  return world
}

t.test('every filter of transactions: the list, the CSV and a reload say the same', async (t) => {
  const { enter } = await accountWithBooks(t)
  const page = await enter('Transactions', { browser: india })
  const all = ['17', '16', '-15', '-14', '13', '-12', '-11']
  const says = async (expected: readonly string[], what: string) => {
    const amounts = page.locator('.row .amount b')
    await until(async () => (await amounts.allTextContents()).join() === signed(expected))
    const rows = await downloaded(page)
    t.same(rows.map(({ amount }) => amount).toReversed(), expected, `${what}, as CSV`)
    return rows
  }
  const rows = await says(all, 'no filter')
  t.equal(rows.find(({ amount }) => amount === '13')?.note, `'=HYPERLINK("https://evil.example")`)
  const choices: readonly (readonly [string, string, readonly string[]])[] = [
    ['Type', 'Charge', ['-15', '-14', '-12', '-11']],
    ['Type', 'Top-up', ['17', '16']],
    ['Model', 'gpt-mini', ['-14', '-11']],
    ['Model', 'gpt-of-old', ['-15']],
    ['Key', 'Website', ['-11']],
  ]
  for (const [name, option, expected] of choices) {
    await field(page, name).selectOption(option)
    await says(expected, option)
    await page.reload()
    await settled(page, 'Transactions')
    await says(expected, `${option}, loaded anew`)
    await field(page, name).selectOption('')
  }
  await field(page, 'From').fill('2025-03-11')
  await says(['17', '16', '-15', '-14', '13', '-12'], 'from midnight in India')
  await field(page, 'To').fill('2025-03-11')
  await says(['-14', '13', '-12'], 'a day in India')
  await field(page, 'Key').selectOption('Notebook')
  await field(page, 'Type').selectOption('Charge')
  await says(['-14', '-12'], 'four filters')
  for (const name of ['From', 'To']) await field(page, name).fill('')
  for (const name of ['Key', 'Type']) await field(page, name).selectOption('')
  await field(page, 'Reference').fill('pi_one')
  await page.keyboard.press('Enter')
  await says(['16'], 'a reference')
  await field(page, 'Reference').fill('pi_none')
  await page.keyboard.press('Enter')
  await shows(page, 'There are no transactions.')
  t.same(await downloaded(page), [])
})

const signed = (amounts: readonly string[]) =>
  amounts.map((amount) => (amount.startsWith('-') ? amount : `+${amount}`)).join()

t.test('dates that are half typed, or the wrong way round, are no failure', async (t) => {
  const { enter } = await accountWithBooks(t)
  const page = await enter('Transactions', { browser: india })
  // So does a date picker while somebody types 2025.
  for (const year of ['0002', '0020', '0202']) await field(page, 'From').fill(`${year}-03-11`)
  await until(async () => (await page.locator('.row code').count()) === 2)
  t.equal(await page.getByRole('alert').count(), 0)
  await field(page, 'From').fill('2025-03-12')
  await field(page, 'To').fill('2025-03-11')
  await shows(page, 'The first day has to be before the last one.')
  t.equal(await page.getByRole('link', { name: 'Download CSV' }).isVisible(), false)
  await field(page, 'To').fill('2025-03-12')
  await until(async () => (await page.locator('.row .amount b').allTextContents()).join() === '-15')
  t.equal((await downloaded(page)).length, 1)
})

t.test('a filter goes on behind a page without rows, and says when it found none', async (t) => {
  const world = await startPage(t, { browser })
  const lookedAtForAPage = 20_000
  const types: Readonly<Record<number, string>> = { 0: 'topup', [lookedAtForAPage + 1]: 'refund' }
  const journal = Array.from({ length: lookedAtForAPage + 2 }, (_, i) => ({
    atMs: atMs('2025-03-10T09:00:00Z') + i,
    type: types[i] ?? 'charge',
    amount: types[i] ? 77 : -1,
    balance: 1000,
  }))
  await writePast(t, world, { journal })
  const page = await world.enter('Transactions')
  await field(page, 'Type').selectOption('Top-up')
  await until(async () => (await page.locator('.row .amount b').allTextContents()).join() === '+77')
  await shows(page, 'That is all.')
  await field(page, 'Type').selectOption('Refund')
  await shows(page, 'That is all.')
  t.equal(await page.locator('.row .amount b').count(), 1)
  await field(page, 'Type').selectOption('Allowance')
  await shows(page, 'There are no transactions.')
  t.same(await downloaded(page), [])
})

const used = (iso: string, more: Partial<UsedHour> = {}): UsedHour => ({
  at: atMs(iso) / 1000,
  model: 'gpt-mini',
  keyId: 'none',
  requests: 1,
  prompt: 5,
  cached: 0,
  completion: 2,
  cost: 7,
  ...more,
})

/** By day, from the table. */
async function requestsByDay(page: Page): Promise<Readonly<Record<string, number>>> {
  const rows = page.getByRole('region', { name: 'The same in numbers' }).locator('tbody tr')
  const cells = await Promise.all((await rows.all()).map((row) => row.locator('th, td').all()))
  const days = await Promise.all(
    cells.map(async ([day, , requests]) => [
      await day?.textContent(),
      Number(await requests?.textContent()),
    ]),
  )
  return Object.fromEntries(days) as Record<string, number>
}

const sumOf = (rows: readonly Row[], column: string) =>
  rows.reduce((sum, row) => sum + Number(row[column]), 0)

t.test('every filter of usage: the chart, the table and the CSV say the same', async (t) => {
  const world = await startPage(t, { browser })
  const { gateway, account, enter } = world
  const { id: website } = await gateway.keyFor(account.id, { name: 'Website' })
  const { id: notebook } = await gateway.keyFor(account.id, { name: 'Notebook' })
  await writePast(t, world, {
    usage: [
      used('2025-03-10T09:00:00Z', { keyId: website, requests: 1 }),
      used('2025-03-10T10:00:00Z', { keyId: notebook, requests: 2, cost: 40 }),
      used('2025-03-11T09:00:00Z', { keyId: notebook, requests: 4, model: 'gpt-of-old' }),
      used('2025-03-12T09:00:00Z', { keyId: website, requests: 8, model: 'gpt-of-old' }),
    ],
  })
  const page = await enter('Usage', { browser: { timezoneId: 'UTC' } })
  await field(page, 'From').fill('2025-03-10')
  await field(page, 'To').fill('2025-03-12')
  const says = async (expected: Readonly<Record<string, number>>, what: string) => {
    const total = Object.values(expected).reduce((sum, count) => sum + count, 0)
    const foot = page
      .getByRole('row', { name: /^Total/ })
      .locator('td')
      .nth(1)
    await until(async () => (await foot.textContent()) === String(total))
    const rows = await downloaded(page)
    t.equal(sumOf(rows, 'requests'), total, `${what}, as CSV`)
    return rows
  }
  await says({ a: 15 }, 'three days')
  await field(page, 'To').fill('2025-03-11')
  await says({ '10 Mar 2025': 3, '11 Mar 2025': 4 }, 'two days')
  t.same(await requestsByDay(page), { '10 Mar 2025': 3, '11 Mar 2025': 4 })
  await field(page, 'Model').selectOption('gpt-of-old')
  t.same(
    (await says({ a: 4 }, 'a model')).map(({ model }) => model),
    ['gpt-of-old'],
  )
  await field(page, 'Model').selectOption('')
  await field(page, 'Key').selectOption('Notebook')
  await says({ a: 6 }, 'a key')
  await field(page, 'Split by').selectOption('Key')
  t.ok((await says({ a: 6 }, 'by key')).every(({ key_id: id }) => id === notebook))
  await page.locator('.legend').getByText('Notebook').waitFor()
  await field(page, 'Key').selectOption('')
  await field(page, 'Show').selectOption('Cost')
  await page.getByRole('heading', { name: 'Cost a day' }).waitFor()
  await page.getByText('Show the numbers').click()
  const chart = page.getByRole('region', { name: 'Cost a day' })
  t.same(await chart.locator('tbody tr').allTextContents(), ['11 Mar 202570', '10 Mar 2025407'])
  t.equal(sumOf(await downloaded(page), 'cost'), 54)
  await page.reload()
  await settled(page, 'Usage')
  t.equal(await field(page, 'Show').inputValue(), 'cost', 'the address keeps what was chosen')
  t.equal(sumOf(await downloaded(page), 'cost'), 54)
})

/** Hours by UTC, and how many of them belong to which day there. */
const zones: readonly {
  readonly timezoneId: string
  readonly what: string
  readonly range: readonly [string, string]
  readonly hours: readonly string[]
  readonly days: Readonly<Record<string, number>>
}[] = [
  {
    timezoneId: 'Asia/Kolkata',
    what: 'the hour that two days share is of the day in which it begins',
    range: ['2025-03-11', '2025-03-12'],
    hours: [
      '2025-03-10T18:00:00Z', // begins on the day before the first
      '2025-03-10T19:00:00Z',
      '2025-03-11T18:00:00Z',
      '2025-03-11T19:00:00Z',
      '2025-03-12T18:00:00Z',
      '2025-03-12T19:00:00Z', // of the day after the last
    ],
    days: { '12 Mar 2025': 2, '11 Mar 2025': 2 },
  },
  {
    timezoneId: 'Europe/Berlin',
    what: 'the day with 25 hours',
    range: ['2025-10-25', '2025-10-27'],
    hours: [
      '2025-10-25T21:00:00Z',
      '2025-10-25T22:00:00Z',
      '2025-10-26T00:00:00Z',
      '2025-10-26T01:00:00Z', // two o'clock again
      '2025-10-26T22:00:00Z',
      '2025-10-26T23:00:00Z',
    ],
    days: { '27 Oct 2025': 1, '26 Oct 2025': 4, '25 Oct 2025': 1 },
  },
  {
    timezoneId: 'Europe/Berlin',
    what: 'the day with 23 hours',
    range: ['2025-03-29', '2025-03-31'],
    hours: [
      '2025-03-29T22:00:00Z',
      '2025-03-29T23:00:00Z',
      '2025-03-30T21:00:00Z',
      '2025-03-30T22:00:00Z',
    ],
    days: { '31 Mar 2025': 1, '30 Mar 2025': 2, '29 Mar 2025': 1 },
  },
]

for (const { timezoneId, what, range, hours, days } of zones) {
  t.test(`days of ${timezoneId}: ${what}`, async (t) => {
    const world = await startPage(t, { browser })
    await writePast(t, world, { usage: hours.map((iso) => used(iso)) })
    const page = await world.enter('Overview', { browser: { timezoneId } })
    const [from, to] = range
    await page.goto(`${world.gateway.url}/account#usage?from=${from}&to=${to}&measure=requests`)
    await settled(page, 'Usage')
    // It may have an older name.
    await shows(page, /By your time zone \([\w/]+\)\./)
    t.same(await requestsByDay(page), days)
    await page.getByText('Show the numbers').click()
    const chart = page.getByRole('region', { name: 'Requests a day' })
    const rows = await chart.locator('tbody tr').allTextContents()
    t.same(
      rows,
      Object.entries(days).map(([day, count]) => `${day}${count}`),
      'the chart',
    )
    const total = Object.values(days).reduce((sum, count) => sum + count, 0)
    t.equal(sumOf(await downloaded(page), 'requests'), total, 'the CSV')
  })
}

t.test('a download after the log-in has ended shows how to get in again', async (t) => {
  const { enter } = await accountWithBooks(t)
  const page = await enter('Transactions', { browser: india })
  page.on('download', () => t.fail('the browser has a file that failed'))
  await page.context().clearCookies()
  await page.getByRole('link', { name: 'Download CSV' }).click()
  await shows(page, 'You have been logged out')
})
