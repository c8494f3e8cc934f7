// tollgate transactions: the newest entries of an account's journal, the oldest of these first; with --follow also the
// entries that come later.

import { setTimeout as sleep } from 'node:timers/promises'
import type { List } from '../http/page.ts'
import type { Transaction } from '../ledger/transaction.ts'
import { path } from './admin.ts'
import { exit, usageError, wordAt } from './command.ts'
import type { Admin, Call, Command } from './command.ts'
import { csvOption, originOptions, printCsv, queryOf, timeOptions } from './filters.ts'
import { collect, tellPages } from './list.ts'
import { formatAmount, formatChange, formatTime, table } from './table.ts'
import type { Column } from './table.ts'
import { parseCount } from './values.ts'

const shownByDefault = 20

/** Not imported from the ledger, which would load the client of Redis. */
const types = 'topup, charge, correction, adjustment, refund or repayment'

export const transactions: Command = {
  name: 'transactions',
  words: ['ACCOUNT'],
  summary: 'top-ups, charges, corrections, refunds and more, newest last',
  options: {
    limit: { value: 'N', help: `how many; if not given, ${shownByDefault}` },
    follow: { help: 'keep running and print each new one; with --json, one per line' },
    ...timeOptions,
    type: { value: 'TYPE', help: types },
    ...originOptions,
    reference: { value: 'ID', help: 'only the top-up of this payment' },
    ...csvOption,
  },
  async run(call) {
    const limit = parseCount('limit', call.text('limit')) ?? shownByDefault
    const target = path`accounts/${wordAt(call, 0)}/transactions`
    const query = queryOf(call, { type: call.text('type'), reference: call.text('reference') })
    refuseMixed(call)
    if (call.has('csv')) return printCsv(call, target, query)
    const admin = await call.admin()
    const newest = await collect<Transaction>(admin, target, { order: 'desc', limit, query })
    const rows = newest.toReversed()
    if (call.has('follow')) return follow(call, { admin, target, rows, query })
    return tellPages(call, columns, [rows])
  },
}

function refuseMixed(call: Call): void {
  const isMixed = call.isJson || call.has('follow') || call.has('limit')
  if (call.has('csv') && isMixed)
    throw usageError('--csv prints all rows: leave out --json, --follow and --limit.')
}

const pollMs = 1000

interface Followed {
  readonly admin: Admin
  readonly target: string
  readonly rows: readonly Transaction[]
  readonly query: URLSearchParams
}

/** Prints until it is interrupted. The columns have fixed widths, because later rows are not known yet. */
async function follow(
  { io, isJson }: Call,
  { admin, target, rows, query }: Followed,
): Promise<number> {
  query.set('order', 'asc')
  query.set('limit', '100')
  const print = (row: Transaction) =>
    io.stdout.write(isJson ? `${JSON.stringify(row)}\n` : formatRow(row))
  rows.forEach(print)
  let last = rows.at(-1)?.id
  while (!io.signal?.aborted) {
    if (last !== undefined) query.set('after', last)
    const page = await admin.get<List<Transaction>>(`${target}?${query}`)
    page.data.forEach(print)
    last = page.last_id ?? last
    // Aborting the signal ends the wait, and so the loop.
    if (!page.has_more) await sleep(pollMs, undefined, { signal: io.signal }).catch(() => undefined)
  }
  return exit.ok
}

const columns: readonly Column<Transaction>[] = [
  { title: 'TIME', cell: ({ created_at }) => formatTime(created_at) },
  { title: 'TYPE', cell: ({ type }) => type },
  { title: 'AMOUNT', isNumber: true, cell: ({ amount }) => formatChange(amount) },
  { title: 'BALANCE', isNumber: true, cell: ({ balance_after }) => formatAmount(balance_after) },
  { title: 'MODEL', cell: ({ model = '-' }) => model },
  { title: 'IN', isNumber: true, cell: ({ usage }) => formatAmount(usage?.prompt_tokens) },
  { title: 'OUT', isNumber: true, cell: ({ usage }) => formatAmount(usage?.completion_tokens) },
  { title: 'NOTE', cell: noteOf },
  { title: 'ID', cell: ({ id }) => id },
]

/** The note of a row, and what its numbers do not show. */
function noteOf(row: Transaction): string {
  const { note, reference, estimated, owed, waived, implausible } = row
  const words = [
    reference ?? '',
    note ?? '',
    estimated ? 'estimated' : '',
    owed ? `owed ${formatAmount(owed)}` : '',
    waived ? `waived ${formatAmount(waived)}` : '',
    implausible ? `implausible ${formatAmount(implausible)}` : '',
  ]
  return words.filter((word) => word !== '').join(', ')
}

const widths = [20, 10, 12, 16, 20, 8, 8, 12, 0]

/** Formats one row as a table without its line of titles. */
function formatRow(row: Transaction): string {
  const padded = columns.map((column, i) => ({
    ...column,
    title: ' '.repeat(widths[i] ?? 0),
  }))
  const lines = table(padded, [row])
  return lines.slice(lines.indexOf('\n') + 1)
}
