// Lists: what `?limit&after&before&order` ask for, and the envelope that all lists come in (contract §1).

import { GatewayError } from '../errors.ts'
import { isId } from '../ids.ts'
import type { IdPrefix } from '../ids.ts'

export interface Page {
  readonly limit: number
  /** Ids. The rows that follow `after` in the list's order, or those nearest to `before`; never both. */
  readonly after?: string
  readonly before?: string
  readonly order: 'asc' | 'desc'
}

/** What a list's query may have, for its route. */
export const pageQuery = ['limit', 'after', 'before', 'order'] as const

const defaultLimit = 20
const maxLimit = 100

/** `isCursor`: can it be the id of a row? What else sorts before or after the rows is nobody's business. */
export function parsePage(
  query: URLSearchParams,
  isCursor: (id: string) => boolean,
  defaultOrder: Page['order'] = 'desc',
): Page {
  const cursor = (name: 'after' | 'before') => {
    const id = single(query, name)
    if (id === undefined || isCursor(id)) return id
    throw refuse(name, `"${name}" must be the id of a row of this list.`)
  }
  const [after, before] = [cursor('after'), cursor('before')]
  if (after !== undefined && before !== undefined) {
    throw refuse('before', 'Give "after" or "before", not both.')
  }
  return { limit: parseLimit(query), order: parseOrder(query) ?? defaultOrder, after, before }
}

/** Of rows with ids of this kind. */
export function parseIdPage(
  query: URLSearchParams,
  prefix: IdPrefix,
  defaultOrder?: Page['order'],
): Page {
  return parsePage(query, (id) => isId(prefix, id), defaultOrder)
}

/** How rows are read for it: from the cursor outwards. Those before a cursor are turned afterwards. */
export interface Direction {
  readonly cursor: string | undefined
  readonly isUpwards: boolean
  readonly isTurned: boolean
}

export function directionOf({ after, before, order }: Page): Direction {
  const isTurned = before !== undefined
  return { cursor: after ?? before, isUpwards: (order === 'asc') !== isTurned, isTurned }
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
    throw refuse('limit', `"limit" must be an integer from 1 to ${maxLimit}.`)
  }
  return limit
}

function parseOrder(query: URLSearchParams): Page['order'] | undefined {
  const text = single(query, 'order')
  if (text === undefined || text === 'asc' || text === 'desc') return text
  throw refuse('order', '"order" must be "asc" or "desc".')
}

/** A parameter that is there once, with a value, or not at all. */
export function single(query: URLSearchParams, name: string): string | undefined {
  const [value, ...others] = query.getAll(name)
  if (others.length > 0 || value === '') throw refuse(name, `Give "${name}" once, with a value.`)
  return value
}

function refuse(param: string, message: string): GatewayError {
  return new GatewayError('invalid_parameter', { param, message })
}
