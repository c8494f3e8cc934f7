// tollgate usage: what was used, by hour or day, of one account or of all; as a table, JSON or CSV.

import type { List } from '../http/page.ts'
import type { UsageRow } from '../ledger/usage.ts'
import { path } from './admin.ts'
import { usageError } from './command.ts'
import type { Admin, Call, Command } from './command.ts'
import { csvOption, originOptions, printCsv, queryOf, timeOptions } from './filters.ts'
import { tellPages } from './list.ts'
import { formatAmount, formatTime } from './table.ts'
import type { Column } from './table.ts'

export const usage: Command = {
  name: 'usage',
  words: ['ACCOUNT?'],
  summary: 'requests, tokens and cost, of one account or of all',
  options: {
    ...timeOptions,
    bucket: { value: 'SIZE', help: 'hour or day; if not given, day' },
    by: { value: 'WHAT', help: 'model or key; without ACCOUNT also account' },
    ...originOptions,
    ...csvOption,
  },
  async run(call) {
    const [account] = call.words
    const target = account === undefined ? 'usage' : path`accounts/${account}/usage`
    const query = queryOf(call, { bucket: call.text('bucket') ?? 'day', group_by: call.text('by') })
    if (call.has('csv')) {
      if (call.isJson) throw usageError('Give --csv or --json, not both.')
      return printCsv(call, target, query)
    }
    return tellPages(call, columnsOf(call), usagePages(await call.admin(), target, query))
  },
}

/** Not `pagesOf`: usage has no order, and takes a limit only by account or key. */
async function* usagePages(
  admin: Admin,
  target: string,
  query: URLSearchParams,
): AsyncGenerator<readonly UsageRow[]> {
  for (;;) {
    const { data, has_more, last_id } = await admin.get<List<UsageRow>>(`${target}?${query}`)
    yield data
    if (!has_more || last_id === null) return
    query.set('after', last_id)
  }
}

function columnsOf(call: Call): readonly Column<UsageRow>[] {
  const by = call.text('by')
  const isOfAll = call.words.length === 0 && (by === 'account' || by === 'key')
  return [
    { title: 'FROM', cell: ({ start }) => formatTime(start) },
    ...(isOfAll ? [{ title: 'ACCOUNT', cell: (row: UsageRow) => row.account_id ?? '-' }] : []),
    ...(by === 'model' ? [{ title: 'MODEL', cell: (row: UsageRow) => row.model ?? '-' }] : []),
    ...(by === 'key' ? [{ title: 'KEY', cell: (row: UsageRow) => row.key_id ?? '-' }] : []),
    amount('REQUESTS', ({ requests }) => requests),
    amount('IN', ({ prompt_tokens }) => prompt_tokens),
    amount('CACHED', ({ cached_tokens }) => cached_tokens),
    amount('OUT', ({ completion_tokens }) => completion_tokens),
    amount('COST', ({ cost }) => cost),
    amount('WAIVED', ({ waived = 0 }) => waived),
  ]
}

function amount(title: string, of: (row: UsageRow) => number): Column<UsageRow> {
  return { title, isNumber: true, cell: (row) => formatAmount(of(row)) }
}
