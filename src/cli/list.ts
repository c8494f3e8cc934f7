// Lists: read from the admin API page by page, and printed as they come, so that a list of any length takes the memory
// of a page, and `| head` ends it early.

import type { List } from '../http/page.ts'
import { exit, writeTo } from './command.ts'
import type { Admin, Call } from './command.ts'
import { createTable } from './table.ts'
import type { Column } from './table.ts'

interface ListedRow {
  readonly id: string
}

interface Paging {
  readonly order: 'asc' | 'desc'
  readonly limit?: number
  /** More parameters: filters. */
  readonly query?: URLSearchParams
}

const pageSize = 100

/** All rows, or the first `limit` rows, in the given order. A page has rows; if there are none at all, one page is empty. */
export async function* pagesOf<T extends ListedRow>(
  admin: Admin,
  path: string,
  { order, limit = Infinity, query: filter }: Paging,
): AsyncGenerator<readonly T[]> {
  const query = new URLSearchParams(filter)
  query.set('order', order)
  let count = 0
  for (;;) {
    query.set('limit', `${Math.min(pageSize, limit - count)}`)
    const { data, has_more, last_id } = await admin.get<List<T>>(`${path}?${query}`)
    if (data.length > 0) yield data
    count += data.length
    if (!has_more || count >= limit || last_id === null) break
    query.set('after', last_id)
  }
  if (count === 0) yield []
}

/** The rows of all pages as one list. */
export async function collect<T extends ListedRow>(
  admin: Admin,
  path: string,
  paging: Paging,
): Promise<readonly T[]> {
  const rows: T[] = []
  for await (const page of pagesOf<T>(admin, path, paging)) rows.push(...page)
  return rows
}

/** What `--json` prints for a list. */
export function listJson(data: readonly unknown[]): object {
  return { object: 'list', data }
}

/** Prints what `tell` prints for a list, each page as it comes. If one fails, the output is not complete. */
export async function tellPages<T>(
  { io: { stdout }, isJson }: Call,
  columns: readonly Column<T>[],
  pages: AsyncIterable<readonly T[]>,
): Promise<number> {
  const format = isJson ? jsonPages() : createTable(columns)
  for await (const page of pages) await writeTo(stdout, format(page))
  if (isJson) stdout.write(']}\n')
  return exit.ok
}

/** A list in JSON, without its end. A page is empty only where it is the only one. */
function jsonPages(): (rows: readonly unknown[]) => string {
  let before = '{"object":"list","data":['
  return (rows) => {
    const text = before + rows.map((row) => JSON.stringify(row)).join(',')
    before = ','
    return text
  }
}
