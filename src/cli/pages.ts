// Reads a list of the admin API page by page.

import type { Admin } from './command.ts'
import type { List } from '../http/page.ts'

const pageSize = 100

/** All rows, or the first `limit` rows, in the given order. */
export async function collect<T extends { readonly id: string }>(
  admin: Admin,
  path: string,
  { order, limit = Infinity }: { readonly order: 'asc' | 'desc'; readonly limit?: number },
): Promise<readonly T[]> {
  const rows: T[] = []
  for (;;) {
    const size = Math.min(pageSize, limit - rows.length)
    const after = rows.at(-1)?.id
    const query = `order=${order}&limit=${size}${after === undefined ? '' : `&after=${after}`}`
    const page = await admin.get<List<T>>(`${path}?${query}`)
    rows.push(...page.data)
    if (!page.has_more || rows.length >= limit || page.data.length === 0) return rows
  }
}

/** What `--json` prints for a list. */
export function listJson(data: readonly unknown[]): object {
  return { object: 'list', data }
}
