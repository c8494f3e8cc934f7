// Transactions and usage as CSV, for finance. Lines are made as they are taken, in pieces, so an export takes the memory
// of a piece; it holds a slot of its account's share while it runs, and takes its turn among the accounts for each piece.

import { csvLines } from '../http/csv.ts'
import type { CsvColumn } from '../http/csv.ts'
import { createSlots } from '../sharing/slots.ts'
import { SharedPool } from '../sharing/shared-pool.ts'
import type { Transaction } from './transaction.ts'
import type { UsageRow } from './usage.ts'

const exportsInAll = 64
const exportsOfOne = 2
/** Of this process. An export runs for as long as its client likes to read. */
const slots = createSlots({
  most: exportsOfOne,
  what: 'CSV exports',
  pool: new SharedPool(exportsInAll),
})

export interface ExportOptions {
  /** The id of the account, which each line has. */
  readonly accountId: string
  /** Whose share the export counts in; an operator's must not count in the customer's. */
  readonly share: string
}

export function transactionLines(
  pieces: AsyncIterable<readonly Transaction[]>,
  { accountId, share }: ExportOptions,
): AsyncGenerator<string> {
  const account = { title: 'account_id', cell: () => accountId }
  const [id, ...others] = transactionColumns
  return sharing(share, csvLines([id, account, ...others], pieces))
}

export function usageLines(
  pieces: AsyncIterable<readonly UsageRow[]>,
  { accountId, share }: ExportOptions,
): AsyncGenerator<string> {
  const account = { title: 'account_id', cell: (row: UsageRow) => row.account_id ?? accountId }
  return sharing(
    share,
    csvLines([...usageColumns.slice(0, 3), account, ...usageColumns.slice(3)], pieces),
  )
}

/** The slot is taken when the first line is asked for, so none is held by an answer that nobody reads. */
async function* sharing(share: string, lines: AsyncIterable<string>): AsyncGenerator<string> {
  const give = slots.take(share)
  try {
    yield* lines
  } finally {
    give()
  }
}

/** `2026-11-24T14:45:50Z`. */
const timeOf = (seconds: number) => new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')

const transactionColumns: readonly [CsvColumn<Transaction>, ...CsvColumn<Transaction>[]] = [
  { title: 'id', cell: ({ id }) => id },
  { title: 'created_at', cell: ({ created_at }) => created_at },
  { title: 'time', cell: ({ created_at }) => timeOf(created_at) },
  { title: 'type', cell: ({ type }) => type },
  { title: 'amount', cell: ({ amount }) => amount },
  { title: 'balance_after', cell: ({ balance_after }) => balance_after },
  { title: 'charged_before', cell: ({ charged_before }) => charged_before },
  { title: 'owed', cell: ({ owed }) => owed },
  { title: 'allowance', cell: ({ allowance }) => allowance },
  { title: 'waived', cell: ({ waived }) => waived },
  { title: 'implausible', cell: ({ implausible }) => implausible },
  { title: 'model', cell: ({ model }) => model },
  { title: 'key_id', cell: ({ key_id }) => key_id },
  { title: 'prompt_tokens', cell: ({ usage }) => usage?.prompt_tokens },
  { title: 'cached_tokens', cell: ({ usage }) => usage?.cached_tokens },
  { title: 'completion_tokens', cell: ({ usage }) => usage?.completion_tokens },
  { title: 'price_input', cell: ({ price }) => price?.input },
  { title: 'price_output', cell: ({ price }) => price?.output },
  { title: 'price_cached_input', cell: ({ price }) => price?.cached_input },
  { title: 'price_request', cell: ({ price }) => price?.request },
  { title: 'estimated', cell: ({ estimated }) => estimated },
  { title: 'cut', cell: ({ cut }) => cut },
  { title: 'request_id', cell: ({ request_id }) => request_id },
  { title: 'session_id', cell: ({ session_id }) => session_id },
  { title: 'message_id', cell: ({ message_id }) => message_id },
  { title: 'reference', cell: ({ reference }) => reference },
  { title: 'note', cell: ({ note }) => note },
]

const usageColumns: readonly CsvColumn<UsageRow>[] = [
  { title: 'start', cell: ({ start }) => start },
  { title: 'end', cell: ({ end }) => end },
  { title: 'start_time', cell: ({ start }) => timeOf(start) },
  { title: 'model', cell: ({ model }) => model },
  { title: 'key_id', cell: ({ key_id }) => key_id },
  { title: 'requests', cell: ({ requests }) => requests },
  { title: 'prompt_tokens', cell: ({ prompt_tokens }) => prompt_tokens },
  { title: 'cached_tokens', cell: ({ cached_tokens }) => cached_tokens },
  { title: 'completion_tokens', cell: ({ completion_tokens }) => completion_tokens },
  { title: 'cost', cell: ({ cost }) => cost },
  { title: 'waived', cell: ({ waived }) => waived },
]
