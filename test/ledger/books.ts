// The columns of finance's files, and how many an account may have made at a time.

import { Readable } from 'node:stream'
import t from 'tap'
import { transactionLines, usageLines } from '../../src/ledger/books.ts'
import { toTransaction } from '../../src/ledger/transaction.ts'
import type { Transaction } from '../../src/ledger/transaction.ts'
import type { UsageRow } from '../../src/ledger/usage.ts'
import { parseCsv } from '../fixtures/csv.ts'

async function* once<Row>(...rows: readonly Row[]) {
  yield rows
}

async function rowsOf(lines: AsyncIterable<string>): Promise<readonly object[]> {
  const [titles = [], ...rows] = await parseCsv((await Readable.from(lines).toArray()).join(''))
  return rows.map((row) => Object.fromEntries(titles.map((title, i) => [title, row[i]])))
}

const charge = {
  type: 'charge',
  amount: '-17',
  balance: '83',
  hold: '0123',
  model: 'org%2Fm',
  key: 'key_1',
  usage: '32 8 20',
  flags: 'ec',
  meta: '{"request_id":"req_1","price":"0.15 0.6 0.075","session_id":"s","message_id":"m"}',
  owed: '3',
  allowance: '4',
  waived: '2',
  implausible: '1',
  as: 'correction',
  before: '9',
}
const entryOf = (fields: object) => ['1795200000123-0', Object.entries(fields).flat()] as const

t.test('a transaction has a column for each of its fields, empty where it has none', async (t) => {
  const topup = { type: 'topup', amount: '5', balance: '5', meta: '{"reference":"p","note":"=n"}' }
  const rows = [toTransaction(entryOf(charge)), toTransaction(entryOf(topup))]
  const to = { accountId: 'acct_1', share: 'a' }
  const [charged, paid] = await rowsOf(transactionLines(once(...rows), to))
  t.same(charged, {
    id: rows[0]?.id,
    account_id: 'acct_1',
    created_at: '1795200000',
    time: '2026-11-20T18:40:00Z',
    type: 'correction',
    amount: '-17',
    balance_after: '83',
    charged_before: '9',
    owed: '3',
    allowance: '4',
    waived: '2',
    implausible: '1',
    model: 'org/m',
    key_id: 'key_1',
    prompt_tokens: '32',
    cached_tokens: '8',
    completion_tokens: '20',
    price_input: '0.15',
    price_output: '0.6',
    price_cached_input: '0.075',
    price_request: '0',
    estimated: 'true',
    cut: 'true',
    request_id: 'req_1',
    session_id: 's',
    message_id: 'm',
    reference: '',
    note: '',
  })
  const filled = Object.entries(paid ?? {}).filter(([, cell]) => cell !== '')
  t.same(Object.fromEntries(filled), {
    id: rows[1]?.id,
    account_id: 'acct_1',
    created_at: '1795200000',
    time: '2026-11-20T18:40:00Z',
    type: 'topup',
    amount: '5',
    balance_after: '5',
    reference: 'p',
    note: "'=n",
  })
})

t.test('a usage row has its account, of a list of all its own', async (t) => {
  const row: UsageRow = {
    object: 'billing.usage',
    start: 1795200000,
    end: 1795203600,
    key_id: 'key_1',
    requests: 3,
    prompt_tokens: 7,
    cached_tokens: 2,
    completion_tokens: 5,
    cost: 12,
  }
  const lines = usageLines(once(row, { ...row, account_id: 'acct_2' }), {
    accountId: '1',
    share: 'a',
  })
  const rows = await rowsOf(lines)
  t.same(rows[0], {
    start: '1795200000',
    end: '1795203600',
    start_time: '2026-11-20T18:40:00Z',
    account_id: '1',
    model: '',
    key_id: 'key_1',
    requests: '3',
    prompt_tokens: '7',
    cached_tokens: '2',
    completion_tokens: '5',
    cost: '12',
    waived: '',
  })
  t.match(rows[1], { account_id: 'acct_2' })
})

t.test('an account has two exports at a time, and a slot is back however one ends', async (t) => {
  let isLeft = false
  async function* endless() {
    try {
      for (;;) yield [] as readonly Transaction[]
    } finally {
      isLeft = true
    }
  }
  const open = (share: string) => transactionLines(endless(), { accountId: 'a', share })
  const unread = open('one')
  const running = [open('one'), open('one')] as const
  for (const lines of running) await lines.next()
  await t.rejects(unread.next(), {
    code: 'concurrency_limit_exceeded',
    status: 429,
    message: 'You have 2 CSV exports running, and no more may run now. Wait for one to end.',
    retryAfterMs: 1000,
  })
  const other = open('two')
  t.match(await other.next(), { done: false }, "another account's share is its own")
  await other.next()
  await other.return(undefined)
  t.ok(isLeft, 'what it reads has ended, too')
  await running[0].return(undefined)
  t.match(await running[1].next(), { done: false })
  const next = open('one')
  t.match(await next.next(), { done: false })
  await t.rejects(open('one').next(), { code: 'concurrency_limit_exceeded' })
  async function* broken() {
    yield [] as readonly Transaction[]
    throw new Error('lost')
  }
  await next.return(undefined)
  const breaking = transactionLines(broken(), { accountId: 'a', share: 'one' })
  await t.rejects(Readable.from(breaking).toArray(), { message: 'lost' })
  const last = open('one')
  t.match(await last.next(), { done: false })
  for (const lines of [last, running[1]]) await lines.return(undefined)
})
