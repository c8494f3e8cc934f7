// The answers of the routes that show an account's books: a page of JSON, or all rows as CSV with `?format=csv`. For the
// billing API, the admin API and the account page alike.

import { json } from '../exchange.ts'
import type { Answer, Exchange } from '../exchange.ts'
import { csvAnswer } from '../http/csv.ts'
import { pageQuery } from '../http/page.ts'
import { oneOf } from '../http/query.ts'
import { invalidParameter } from '../http/refusals.ts'
import type { ExportOptions } from './books.ts'
import type { Ledger } from './ledger.ts'
import {
  parseTransactionFilter,
  parseTransactionQuery,
  transactionQuery,
} from './transaction-query.ts'
import { parseUsageQuery, usageQuery } from './usage-query.ts'
import { parseUsageOfAllQuery, usageOfAllQuery } from './usage-of-all.ts'

/** The parameters of the queries, for their routes. */
export const bookQueries = {
  transactions: [...transactionQuery, 'format'],
  usage: [...usageQuery, 'format'],
  usageOfAll: [...usageOfAllQuery, 'format'],
} as const

export interface BookRequest extends ExportOptions {
  readonly ref: string
  readonly query: URLSearchParams
  /** Fires when the client leaves. */
  readonly signal?: AbortSignal
}

export async function answerTransactions(
  ledger: Pick<Ledger, 'transactions' | 'transactionsCsv'>,
  { ref, query, ...to }: BookRequest,
): Promise<Answer> {
  if (!wantsCsv(query)) return json(await ledger.transactions(ref, parseTransactionQuery(query)))
  refusePages(query)
  const lines = ledger.transactionsCsv(ref, parseTransactionFilter(query), to)
  return csvAnswer('transactions', lines)
}

export async function answerUsage(
  ledger: Pick<Ledger, 'usage' | 'usageCsv'>,
  { ref, query, signal, ...to }: BookRequest,
): Promise<Answer> {
  const isCsv = wantsCsv(query)
  const asked = parseUsageQuery(query)
  return isCsv
    ? csvAnswer('usage', ledger.usageCsv(ref, asked, to))
    : { status: 200, body: await ledger.usage(ref, asked, { share: to.share, signal }) }
}

export async function answerUsageOfAll(
  ledger: Pick<Ledger, 'usageOfAll' | 'usageOfAllCsv'>,
  { query, signal }: Pick<Exchange, 'query' | 'signal'>,
): Promise<Answer> {
  const isCsv = wantsCsv(query)
  if (isCsv) refusePages(query)
  const asked = parseUsageOfAllQuery(query)
  return isCsv
    ? csvAnswer('usage', ledger.usageOfAllCsv(asked))
    : json(await ledger.usageOfAll(asked, signal))
}

function wantsCsv(query: URLSearchParams): boolean {
  return oneOf(query, 'format', ['json', 'csv']) === 'csv'
}

function refusePages(query: URLSearchParams): void {
  const found = pageQuery.find((name) => query.has(name))
  if (found === undefined) return
  const message = `CSV has all rows, the oldest first. Leave "${found}" out, and use "from" and "to".`
  throw invalidParameter(found, message)
}
