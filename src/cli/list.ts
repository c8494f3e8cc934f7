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

/** All rows, or the first `limit` rows, in the given order. There is at least one page; any may be without rows. */
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
    yield data
    count += data.length
    if (!has_more || count >= limit || last_id === null) return
    query.set('after', last_id)
  }
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

/** Prints a list as JSON or as a table, each page as it comes. If one fails, the output is not complete. */
export async function tellPages<T>(
  { io: { stdout }, isJson }: Call,
  columns: readonly Column<T>[],
  pages: AsyncIterable<readonly T[]> | Iterable<readonly T[]>,
): Promise<number> {
  const format = isJson ? jsonPages() : createTable(columns)
  for await (const page of pages) await writeTo(stdout, format(page))
  if (isJson) stdout.write(']}\n')
  return exit.ok
}

/** A list in JSON, without its end. */
function jsonPages(): (rows: readonly unknown[]) => string {
  let head = '{"object":"list","data":['
  let comma = ''
  return (rows) => {
    let text = head
    head = ''
    for (const row of rows) {
      text += comma + JSON.stringify(row)
      comma = ','
    }
    return text
  }
}
