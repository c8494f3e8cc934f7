// tollgate transactions: the newest entries of an account's journal, the oldest of these first; with --follow also the
// entries that come later.

import { setTimeout as sleep } from 'node:timers/promises'
import type { List } from '../http/page.ts'
import type { Transaction } from '../ledger/journal.ts'
import { collect, listJson, path } from './admin.ts'
import { exit, tell, wordAt } from './command.ts'
import type { Admin, Call, Command } from './command.ts'
import { formatAmount, formatChange, formatTime, table } from './table.ts'
import type { Column } from './table.ts'
import { parseCount } from './values.ts'

const shownByDefault = 20

export const transactions: Command = {
  name: 'transactions',
  words: ['ACCOUNT'],
  summary: 'top-ups, charges, adjustments and repayments, newest last',
  options: {
    limit: { value: 'N', help: `how many; if not given, ${shownByDefault}` },
    follow: { help: 'keep running and print each new one; with --json, one per line' },
  },
  async run(call) {
    const limit = parseCount('limit', call.text('limit')) ?? shownByDefault
    const target = path`accounts/${wordAt(call, 0)}/transactions`
    const admin = await call.admin()
    const newest = await collect<Transaction>(admin, target, { order: 'desc', limit })
    const rows = newest.toReversed()
    if (call.has('follow')) return follow(call, { admin, target, rows })
    return tell(call, listJson(rows), table(columns, rows))
  },
}

const pollMs = 1000

interface Followed {
  readonly admin: Admin
  readonly target: string
  readonly rows: readonly Transaction[]
}

/** Prints until it is interrupted. The columns have fixed widths, because later rows are not known yet. */
async function follow({ io, isJson }: Call, { admin, target, rows }: Followed): Promise<number> {
  const print = (row: Transaction) =>
    io.stdout.write(isJson ? `${JSON.stringify(row)}\n` : formatRow(row))
  rows.forEach(print)
  let last = rows.at(-1)?.id
  while (!io.signal?.aborted) {
    const cursor = last === undefined ? '' : `&after=${last}`
    const page = await admin.get<List<Transaction>>(`${target}?order=asc&limit=100${cursor}`)
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
  { title: 'IN', isNumber: true, cell: ({ usage }) => tokens(usage?.prompt_tokens) },
  { title: 'OUT', isNumber: true, cell: ({ usage }) => tokens(usage?.completion_tokens) },
  { title: 'NOTE', cell: noteOf },
  { title: 'ID', cell: ({ id }) => id },
]

/** The note of a row, and what its numbers do not show. */
function noteOf({ note, estimated, owed, waived, implausible }: Transaction): string {
  const words = [
    note ?? '',
    estimated ? 'estimated' : '',
    owed ? `owed ${formatAmount(owed)}` : '',
    waived ? `waived ${formatAmount(waived)}` : '',
    implausible ? `implausible ${formatAmount(implausible)}` : '',
  ]
  return words.filter((word) => word !== '').join(', ')
}

function tokens(count: number | undefined): string {
  return count === undefined ? '-' : formatAmount(count)
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
