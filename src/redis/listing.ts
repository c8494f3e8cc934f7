// Reads one page of rows whose ids are in a zset. Rows can be gone (retention) while their ids stay: such ids are
// skipped, and removed from the zset. A page ends early when its rows are large: it has more than `largestPage` bytes
// only if its one row has.

import type { Redis } from './client.ts'
import { directionOf, listOf } from '../http/page.ts'
import type { Direction, List, Page } from '../http/page.ts'
import { FairTurns } from '../sharing/fair-turns.ts'

export interface Rows<T> {
  /** The account. */
  readonly ref: string
  /** The zset with the ids. */
  readonly key: string
  /**
   * Reads in one round trip, in the order of the ids. Returns fewer rows than ids when the next row has no room, but
   * always at least one that exists.
   */
  read(ids: readonly string[], room: number): Promise<readonly Row<T>[]>
  /** Called with ids whose rows are gone; by default they are only removed from the zset. */
  forget?(ids: readonly string[]): Promise<unknown>
}

/** For rows that one script reads together with their ids. */
export interface Flights<T> extends Pick<Rows<T>, 'ref'> {
  /** Returns fewer rows than ids when the next row has no room, but always at least one that exists. */
  fly(wanted: Members, room: number): Promise<Flight<T>>
  /** Called with ids whose rows are gone. */
  forget(ids: readonly string[]): Promise<unknown>
}

export interface Flight<T> {
  readonly ids: readonly string[]
  /** In the order of the ids. */
  readonly rows: readonly Row<T>[]
}

/** `unreadable`: the row exists, but this gateway did not write it. */
export type Row<T> = { readonly value: T; readonly bytes: number } | 'gone' | 'unreadable'

/** In bytes: a page is in memory until its client has taken it. If rows are left, `has_more` tells the client to go on. */
const largestPage = 1024 * 1024
const rowsAFlight = 26

/** Each may read and parse a megabyte. */
const pagesAtOnce = 4
const pages = new FairTurns(pagesAtOnce)

/** Waits for its turn, because an account may ask for hundreds of pages at a time. */
export function readPage<T extends { readonly id: string }>(
  redis: Redis,
  { ref, key, read, forget = (ids) => redis.zrem(key, ...ids) }: Rows<T>,
  page: Page,
): Promise<List<T>> {
  const fly = async (wanted: Members, room: number): Promise<Flight<T>> => {
    const ids = await readMembers(redis, key, wanted)
    return { ids, rows: ids.length > 0 ? await read(ids, room) : [] }
  }
  return readFlights({ ref, fly, forget }, page)
}

/** `readPage` for such rows. */
export function readFlights<T extends { readonly id: string }>(
  flights: Flights<T>,
  page: Page,
): Promise<List<T>> {
  return pages.run(flights.ref, () => readNow(flights, page))
}

async function readNow<T extends { readonly id: string }>(
  flights: Flights<T>,
  page: Page,
): Promise<List<T>> {
  const direction = directionOf(page)
  const data: T[] = []
  let bytes = 0
  let hasMore = false
  const mostAFlight = Math.min(page.limit + 1, rowsAFlight)
  for await (const row of walk(flights, { ...direction, mostAFlight })) {
    const isCut = row === 'cut'
    const isFull = isCut || data.length === page.limit || bytes + row.bytes > largestPage
    // The first row goes into the page however large it is.
    hasMore = isFull && data.length > 0
    if (hasMore) break
    if (isCut) continue
    data.push(row.value)
    bytes += row.bytes
  }
  if (direction.isTurned) data.reverse()
  return listOf(data, hasMore)
}

interface Walk extends Direction {
  readonly mostAFlight: number
}

/** Yields `cut` where rows of a round trip had no room, and goes on with these rows. */
async function* walk<T>(
  { fly, forget }: Flights<T>,
  { cursor, isUpwards, mostAFlight: count }: Walk,
) {
  for (;;) {
    const { ids, rows } = await fly({ cursor, isUpwards, count }, largestPage)
    if (ids.length === 0) return
    const gone = ids.filter((_id, at) => rows[at] === 'gone')
    if (gone.length > 0) await forget(gone)
    for (const row of rows) if (typeof row === 'object') yield row
    const isCut = rows.length < ids.length
    if (isCut) yield 'cut' as const
    const isLast = !isCut && ids.length < count
    if (isLast) return
    cursor = ids[rows.length - 1]
  }
}

export interface Members {
  /** An id; undefined starts at the first member in the direction of reading. */
  readonly cursor: string | undefined
  readonly isUpwards: boolean
  readonly count: number
}

/**
 * Reads members of a zset from a cursor on. All scores are 0, so the members are in the order of their ids, which is
 * creation order. A member is an id, or an id, a colon and more. A cursor is a position: its member need not exist.
 */
export function readMembers(
  redis: Redis,
  key: string,
  { cursor, isUpwards, count }: Members,
): Promise<string[]> {
  // `;` is the character after the colon: `id;` sorts after the id and after all that begins with `id:`.
  return isUpwards
    ? redis.zrangebylex(key, cursor ? `(${cursor};` : '-', '+', 'LIMIT', 0, count)
    : redis.zrevrangebylex(key, cursor ? `(${cursor}` : '+', '-', 'LIMIT', 0, count)
}
