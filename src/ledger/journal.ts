// The journal: an entry for each change of the balance; old entries are in the archive, all others in Redis' stream. Here
// they are read as pages of a list, or piece by piece for an export, with filters. A read takes its turn among the
// accounts, and a page looks at a bounded number of entries.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { directionOf, listOf } from '../http/page.ts'
import type { List } from '../http/page.ts'
import { keys } from '../redis/keys.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import { beyond, compareIds, streamId, toTransaction, transactionId } from './transaction.ts'
import type { JournalEntry, Transaction } from './transaction.ts'
import { edgesOf, isFiltered, matcherOf } from './transaction-query.ts'
import type { TransactionFilter, TransactionQuery } from './transaction-query.ts'

export type TransactionList = List<Transaction>

/** Entries that were taken out of the stream. */
export interface OldEntries {
  /** For reads that follow each other: the reader remembers what it has listed and parsed, until it is disposed of. */
  open(ref: string): OldReader
}

export interface OldReader extends Disposable {
  /** Reads at most `count` entries beyond the cursor; upwards the oldest first, else the newest first. */
  read(options: ReadOptions): Promise<readonly JournalEntry[]>
}

export interface ReadOptions {
  readonly isUpwards: boolean
  /** A stream id, excluded: where the read begins. */
  readonly cursor: string | undefined
  /** A stream id, excluded: where it ends. */
  readonly end?: string | undefined
  readonly count: number
}

export interface JournalSource {
  readonly redis: Redis
  readonly archive: OldEntries
}

const pagesAtOnce = 4
/** An account may ask for hundreds of pages at once, and each may read from the archive: so pages wait for their turn. */
const pages = new FairTurns(pagesAtOnce)

/** About two milliseconds of work. */
const pieceSize = 500
/** A page that has looked at so many entries ends, even if it has no row: its cursor says where the next one begins. */
const mostLookedAt = 20_000

interface Found {
  readonly entries: readonly JournalEntry[]
  /** Where the search ended before it had enough. */
  readonly stoppedAt?: string
}

export async function readTransactions(
  source: JournalSource,
  ref: string,
  query: TransactionQuery,
): Promise<TransactionList> {
  const { limit } = query
  const { isTurned } = directionOf(query)
  const { entries, stoppedAt } = await find(source, ref, query)
  const data = entries.slice(0, limit).map(toTransaction)
  if (isTurned) data.reverse()
  const list = listOf(data, entries.length > limit || stoppedAt !== undefined)
  if (stoppedAt === undefined) return list
  // The next page begins where this search ended, not at the last row that it found.
  return { ...list, [isTurned ? 'first_id' : 'last_id']: transactionId(stoppedAt) }
}

async function find(source: JournalSource, ref: string, query: TransactionQuery): Promise<Found> {
  const { limit } = query
  const { cursor: id, isUpwards } = directionOf(query)
  const given = id === undefined ? undefined : streamId(id)
  const count = isFiltered(query) ? pieceSize : limit + 1
  const entries: JournalEntry[] = []
  let lookedAt = 0
  for await (const piece of search(source, ref, {
    filter: query,
    isUpwards,
    cursor: given,
    count,
  })) {
    entries.push(...piece.found)
    lookedAt += piece.size
    if (entries.length > limit) break
    if (lookedAt < mostLookedAt || piece.last === undefined) continue
    return { entries, stoppedAt: piece.last }
  }
  return { entries }
}

/** All entries that match, the oldest first, in pieces that take their turn among the accounts. */
export async function* readPieces(
  source: JournalSource,
  ref: string,
  filter: TransactionFilter,
): AsyncGenerator<readonly Transaction[]> {
  const options = { filter, isUpwards: true, cursor: undefined, count: pieceSize }
  for await (const { found } of search(source, ref, options)) yield found.map(toTransaction)
}

interface Search extends ReadOptions {
  readonly filter: TransactionFilter
}

interface SearchedPiece {
  readonly found: readonly JournalEntry[]
  readonly size: number
  /** Where the next piece begins; undefined at the end. */
  readonly last: string | undefined
}

async function* search(
  source: JournalSource,
  ref: string,
  options: Search,
): AsyncGenerator<SearchedPiece> {
  const { filter, isUpwards, count } = options
  if (filter.reference !== undefined) return yield await findPayment(source, ref, options)
  const isBeyond = beyond(isUpwards)
  const { start, end } = edgesOf(filter, isUpwards)
  const matches = matcherOf(filter)
  const { cursor: given } = options
  // Begins at the cursor; or at the edge of the range, if there is no cursor or it lies before that edge.
  let cursor = given === undefined || (start && isBeyond(start, given)) ? start : given
  using reader = openReader(source, ref)
  for (;;) {
    const reading = { isUpwards, cursor, end, count }
    const entries = await pages.run(ref, () => reader.read(reading))
    cursor = entries.at(-1)?.[0]
    const isEnd = entries.length < count
    yield { found: entries.filter(matches), size: count, last: isEnd ? undefined : cursor }
    if (isEnd) return
  }
}

/** The one entry of a payment, found by its reference and not by a search. */
async function findPayment(
  source: JournalSource,
  ref: string,
  { filter, isUpwards, cursor }: Search,
): Promise<SearchedPiece> {
  const payment = await asked(source.redis.hget(keys.payments(ref), filter.reference ?? ''))
  const entry =
    payment === null ? undefined : await readEntry(source, ref, payment.split(' ')[0] ?? '')
  const { start, end } = edgesOf(filter, isUpwards)
  const isBeyond = beyond(isUpwards)
  const isAfter = (edge: string | undefined, id: string) => edge === undefined || isBeyond(id, edge)
  const isFound =
    entry !== undefined &&
    isAfter(cursor, entry[0]) &&
    isAfter(start, entry[0]) &&
    (end === undefined || isBeyond(end, entry[0])) &&
    matcherOf(filter)(entry)
  return { found: isFound ? [entry] : [], size: 1, last: undefined }
}

/** The entry with this stream id. */
export async function readEntry(
  source: JournalSource,
  ref: string,
  id: string,
): Promise<JournalEntry | undefined> {
  const [ms = '0', sequence = '0'] = id.split('-')
  const before =
    sequence === '0' ? `${BigInt(ms) - 1n}-${lastSequence}` : `${ms}-${BigInt(sequence) - 1n}`
  const options = { isUpwards: true, cursor: before, count: 1 }
  const [entry] = await pages.run(ref, () => readEntries(source, ref, options))
  return entry?.[0] === id ? entry : undefined
}

const lastSequence = '18446744073709551615'

export async function readEntries(
  source: JournalSource,
  ref: string,
  options: ReadOptions,
): Promise<readonly JournalEntry[]> {
  using reader = openReader(source, ref)
  return await reader.read(options)
}

/**
 * Reads across the border of stream and archive. The stream is read first: an entry that is archived meanwhile is then
 * seen twice, and not missed.
 */
function openReader({ redis, archive }: JournalSource, ref: string): OldReader {
  const old = archive.open(ref)
  return {
    async read(options) {
      const { isUpwards, cursor, count } = options
      const recent = await readStream(redis, ref, options)
      if (isUpwards) {
        const first = await old.read(options)
        const lastOld = first.at(-1)?.[0]
        const rest = lastOld ? recent.filter(([id]) => compareIds(id, lastOld) > 0) : recent
        return [...first, ...rest].slice(0, count)
      }
      if (recent.length >= count) return recent
      const from = recent.at(-1)?.[0] ?? cursor
      const rest = await old.read({ ...options, cursor: from, count: count - recent.length })
      return [...recent, ...rest]
    },
    [Symbol.dispose]: () => old[Symbol.dispose](),
  }
}

export function readStream(
  redis: Redis,
  ref: string,
  { isUpwards, cursor, end, count }: ReadOptions,
): Promise<readonly JournalEntry[]> {
  const key = keys.journal(ref)
  const edge = (id: string | undefined, open: string) => (id === undefined ? open : `(${id}`)
  return asked(
    isUpwards
      ? redis.xrange(key, edge(cursor, '-'), edge(end, '+'), 'COUNT', count)
      : redis.xrevrange(key, edge(cursor, '+'), edge(end, '-'), 'COUNT', count),
  )
}
