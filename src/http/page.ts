// Lists: what `?limit&after&before&order` ask for, and the envelope of all lists (docs/api.md#lists).

import { isId } from '../ids.ts'
import type { IdPrefix } from '../ids.ts'
import { invalid, invalidParameter } from './refusals.ts'

export interface Page {
  readonly limit: number
  /** Ids. Asks for the rows that follow `after` in the list's order, or for the rows just before `before`; never both. */
  readonly after?: string
  readonly before?: string
  readonly order: 'asc' | 'desc'
}

/** The query parameters of a list, for its route. */
export const pageQuery = ['limit', 'after', 'before', 'order'] as const

const defaultLimit = 20
const maxLimit = 100

/** `isCursor` tells whether a text can be the id of a row. Any other text is refused, so that a client cannot learn what else sorts between the rows. */
export function parsePage(
  query: URLSearchParams,
  isCursor: (id: string) => boolean,
  defaultOrder: Page['order'] = 'desc',
): Page {
  const cursor = (name: 'after' | 'before') => {
    const id = single(query, name)
    if (id === undefined || isCursor(id)) return id
    throw invalid(name, 'must be the id of a row of this list')
  }
  const [after, before] = [cursor('after'), cursor('before')]
  if (after !== undefined && before !== undefined) {
    throw invalidParameter('before', 'Give "after" or "before", not both.')
  }
  return { limit: parseLimit(query), order: parseOrder(query) ?? defaultOrder, after, before }
}

/** The same for rows whose ids have this prefix. */
export function parseIdPage(
  query: URLSearchParams,
  prefix: IdPrefix,
  defaultOrder?: Page['order'],
): Page {
  return parsePage(query, (id) => isId(prefix, id), defaultOrder)
}

/** How the rows of a page are read: away from the cursor. Rows before a cursor are reversed afterwards. */
export interface Direction {
  readonly cursor: string | undefined
  readonly isUpwards: boolean
  /** The rows are read against the list's order. */
  readonly isTurned: boolean
}

const opposite = { asc: 'desc', desc: 'asc' } as const

export function directionOf({ after, before, order }: Page): Direction {
  const isTurned = before !== undefined
  const readOrder = isTurned ? opposite[order] : order
  return { cursor: after ?? before, isUpwards: readOrder === 'asc', isTurned }
}

export interface List<T> {
  readonly object: 'list'
  readonly data: readonly T[]
  readonly first_id: string | null
  readonly last_id: string | null
  readonly has_more: boolean
}

export function listOf<T extends { readonly id: string }>(
  data: readonly T[],
  hasMore: boolean,
): List<T> {
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: hasMore,
  }
}

function parseLimit(query: URLSearchParams): number {
  const text = single(query, 'limit')
  if (text === undefined) return defaultLimit
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (limit < 1 || limit > maxLimit) {
    throw invalid('limit', `must be an integer from 1 to ${maxLimit}`)
  }
  return limit
}

function parseOrder(query: URLSearchParams): Page['order'] | undefined {
  const text = single(query, 'order')
  if (text === undefined || text === 'asc' || text === 'desc') return text
  throw invalid('order', 'must be "asc" or "desc"')
}

/** The parameter's value; undefined when it is not there. Throws when it is there twice, or without a value. */
export function single(query: URLSearchParams, name: string): string | undefined {
  const [value, ...others] = query.getAll(name)
  if (others.length > 0 || value === '') {
    throw invalidParameter(name, `Give "${name}" once, with a value.`)
  }
  return value
}
