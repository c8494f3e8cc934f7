// Which transactions are asked for: the query of GET …/transactions, for a customer's and for the operator's routes alike.

import { isId } from '../ids.ts'
import { isReference } from './credit.ts'
import { pageQuery, parsePage, single } from '../http/page.ts'
import type { Page } from '../http/page.ts'
import { oneOf, parseSeconds } from '../http/query.ts'
import { invalid } from '../http/refusals.ts'
import { fieldsOf, isTransactionId, lowestId, transactionTypes, typeOf } from './transaction.ts'
import type { JournalEntry, TransactionType } from './transaction.ts'

export interface TransactionFilter {
  /** Unix seconds; made at this time or later. */
  readonly from?: number
  /** Made before this time. */
  readonly to?: number
  readonly type?: TransactionType
  /** Model id as configured. */
  readonly model?: string
  readonly key?: string
  /** Of a payment. */
  readonly reference?: string
}

export interface TransactionQuery extends Page, TransactionFilter {}

const transactionFilters = ['from', 'to', 'type', 'model', 'key', 'reference'] as const

/** The parameters of the query, for its routes. */
export const transactionQuery = [...pageQuery, ...transactionFilters] as const

export function parseTransactionQuery(query: URLSearchParams): TransactionQuery {
  return { ...parsePage(query, isTransactionId), ...parseTransactionFilter(query) }
}

export function parseTransactionFilter(query: URLSearchParams): TransactionFilter {
  const [from, to] = [parseSeconds(query, 'from'), parseSeconds(query, 'to')]
  if (from !== undefined && to !== undefined && from > to)
    throw invalid('from', 'must not be after "to"')
  const reference = single(query, 'reference')
  if (reference !== undefined && !isReference(reference))
    throw invalid('reference', 'must be 1 to 255 visible ASCII characters')
  return {
    from,
    to,
    type: query.has('type') ? oneOf(query, 'type', transactionTypes) : undefined,
    ...parseOrigin(query),
    reference,
  }
}

/** The model and the key of charges, or of usage. */
export function parseOrigin(query: URLSearchParams): { model?: string; key?: string } {
  const [model, key] = [single(query, 'model'), single(query, 'key')]
  if (key !== undefined && !isId('key', key)) throw invalid('key', 'must be the id of a key')
  return { model, key }
}

/** Whether rows are left out in the middle, and not only at the ends: then many entries may have to be read for one page. */
export function isFiltered({ type, model, key }: TransactionFilter): boolean {
  return type !== undefined || model !== undefined || key !== undefined
}

/** Where a read begins and ends, in its direction: stream ids that the read itself leaves out. */
export function edgesOf({ from, to }: TransactionFilter, isUpwards: boolean) {
  const below = from === undefined || from === 0 ? undefined : `${from * 1000 - 1}-${mostInMs}`
  const above = to === undefined ? undefined : firstIdAt(to)
  return isUpwards ? { start: below, end: above } : { start: above, end: below }
}

/** Redis refuses `(0-0` as an edge, because nothing can lie below it; `(0-1` leaves out as much. */
function firstIdAt(seconds: number): string {
  return seconds === 0 ? lowestId : `${seconds * 1000}-0`
}

/** More entries than a millisecond can have. */
const mostInMs = Number.MAX_SAFE_INTEGER

export function matcherOf({ type, model, key }: TransactionFilter) {
  const encoded = model === undefined ? undefined : encodeURIComponent(model)
  return (entry: JournalEntry): boolean => {
    const fields = fieldsOf(entry)
    return (
      (type === undefined || typeOf(fields) === type) &&
      (encoded === undefined || fields.model === encoded) &&
      (key === undefined || fields.key === key)
    )
  }
}
