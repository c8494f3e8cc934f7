// Reads one account for the audit: its journal from the first entry to the last, archived ones included, then what it has
// at the instant of that last entry. A short journal is read by one script. Of a longer one the rest is read in pages,
// because in Lua an entry costs Redis 15 µs, in XRANGE 3.

import { accountKeys } from '../redis/keys.ts'
import { asked } from '../redis/asked.ts'
import { textAt, unavailable } from '../redis/scripts.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import { readStream } from './journal.ts'
import type { JournalSource, ReadOptions } from './journal.ts'
import type { LedgerScripts } from './library.ts'
import { Tally } from './tally.ts'
import type { AccountState, AccountRow } from './tally.ts'
import { compareIds } from './transaction.ts'
import type { JournalEntry } from './transaction.ts'

export interface AuditPlace extends JournalSource {
  readonly scripts: LedgerScripts
}

/** How many accounts this process reads at the same time, for all audits together. A customer's command may have to wait in Redis for all of these reads, which take under a millisecond if each has three entries. */
export const accountsAtOnce = 16
const reads = new FairTurns(accountsAtOnce)

/** How many entries the script reads. */
const fewEntries = 10
/** Redis takes 0.2 ms for a page, and this process 1.5 ms. */
const pageSize = 50
/** The archive has them in objects of a thousand. */
const archivePageSize = 1000
const maxTries = 5

/** Called with the number of entries that were added up. A number below 0 takes so many back: they are read again. */
type OnEntries = (count: number) => void

/** Throws the signal's reason between two reads when it aborts. */
export async function auditAccount(
  place: AuditPlace,
  ref: string,
  options: { readonly signal?: AbortSignal | undefined; readonly onEntries: OnEntries },
): Promise<Tally> {
  for (let i = 0; i < maxTries; i++) {
    const reading = new Reading(place, ref, options.signal)
    const tally = await readAll(reading, options.onEntries)
    if (tally) return tally
  }
  throw unavailable(new Error('The journal was archived while it was read, too often'))
}

/** Resolves with undefined when the archive removed entries meanwhile. */
async function readAll(reading: Reading, onEntries: OnEntries): Promise<Tally | undefined> {
  let state = await reading.look('0-0')
  const before = state.account
  const tally = new Tally(reading.ref, before)
  const add = (entries: readonly JournalEntry[]) => {
    tally.add(entries)
    onEntries(entries.length)
  }
  if (before.archived_last) {
    for await (const entries of reading.archived(before.archived_last)) add(entries)
    tally.compareArchived(before)
  }
  add(state.entries)
  while (!state.isWhole) {
    let last = state.entries.at(-1)?.[0] ?? '0-0'
    for await (const entries of reading.recent(last)) {
      add(entries)
      last = entries.at(-1)?.[0] ?? last
    }
    state = await reading.look(last)
    add(state.entries)
  }
  if (state.account.archived !== before.archived) {
    onEntries(-tally.entries)
    return undefined
  }
  tally.compare(state)
  return tally
}

interface Look extends AccountState {
  /** Those behind the id that was asked for, but only the first ones. */
  readonly entries: readonly JournalEntry[]
  /** There are no more entries. */
  readonly isWhole: boolean
}

/** The reads of one account, each of which waits for its turn. */
class Reading {
  readonly place: AuditPlace
  readonly ref: string
  readonly #signal: AbortSignal | undefined

  constructor(place: AuditPlace, ref: string, signal: AbortSignal | undefined) {
    this.place = place
    this.ref = ref
    this.#signal = signal
  }

  /** The account, its holds and the entries behind `after`, all at one instant. */
  async look(after: string): Promise<Look> {
    const { scripts } = this.place
    const args = [after, `${fewEntries}`]
    const reply = await this.#turn(() => scripts.run('audit', accountKeys(this.ref), args))
    const [account, holdRows, found]: Looked = JSON.parse(textAt(reply, 2))
    const entries = Array.isArray(found) ? found : []
    const isWhole = entries.length < fewEntries
    return {
      account: rowOf(account),
      holdRows: rowOf(holdRows),
      entries,
      isWhole,
    }
  }

  /** What the journal in Redis has behind this entry. */
  recent(after: string): AsyncGenerator<readonly JournalEntry[]> {
    const { redis } = this.place
    return this.#pages((options) => readStream(redis, this.ref, options), pageSize, after)
  }

  async *archived(last: string): AsyncGenerator<readonly JournalEntry[]> {
    using reader = this.place.archive.open(this.ref)
    for await (const entries of this.#pages((options) => reader.read(options), archivePageSize)) {
      // An object may hold more entries than were taken out of the journal.
      yield entries.filter(([id]) => compareIds(id, last) <= 0)
    }
  }

  /** All entries, the oldest first. */
  async *#pages(
    read: (options: ReadOptions) => Promise<readonly JournalEntry[]>,
    count: number,
    after?: string,
  ): AsyncGenerator<readonly JournalEntry[]> {
    let cursor = after
    for (;;) {
      const entries = await this.#turn(() => read({ isUpwards: true, cursor, count }))
      yield entries
      cursor = entries.at(-1)?.[0]
      if (entries.length < count) return
    }
  }

  #turn<T>(read: () => Promise<T>): Promise<T> {
    return reads.run(this.ref, () => {
      this.#signal?.throwIfAborted()
      return asked(read())
    })
  }
}

/** As lua/audit.lua writes it; an empty list of Lua may become an object. */
type Looked = readonly [account: Flat, holdRows: Flat, entries: readonly JournalEntry[] | object]
type Flat = readonly string[] | object

function rowOf(flat: Flat): AccountRow {
  const row: Record<string, string> = {}
  if (!Array.isArray(flat)) return row
  for (let i = 0; i < flat.length; i += 2) row[flat[i]] = flat[i + 1]
  return row
}
