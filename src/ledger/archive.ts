// Old journal entries as ndjson objects `journal/<ref>/<first id>-<last id>.ndjson`, never just dropped: an entry leaves
// Redis after its object was written and read back. A crash in between leaves an object that the next run finds and uses.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { accountKeys, keys } from '../redis/keys.ts'
import type { ObjectStore } from '../store/store.ts'
import type { OldEntries, OldReader, ReadOptions } from './journal.ts'
import { beyond, compareIds } from './transaction.ts'
import type { JournalEntry } from './transaction.ts'
import { numberAt } from '../redis/scripts.ts'
import type { LedgerScripts } from './library.ts'

export interface Archive extends OldEntries {
  /** Takes entries older than `beforeMs` out of an account's journal. Answers how many; roughly, if another gateway does so at the same time. */
  archive(ref: string, beforeMs: number): Promise<number>
}

export interface ArchiveOptions {
  readonly redis: Redis
  readonly scripts: LedgerScripts
  readonly store: ObjectStore
}

const batch = 1000

export function createArchive({ redis, scripts, store }: ArchiveOptions): Archive {
  const archiveSome = async (ref: string, beforeMs: number): Promise<number> => {
    const key = keys.journal(ref)
    const entries = await redis.xrange(key, '-', `${beforeMs - 1}`, 'COUNT', batch)
    // Of a million accounts, most have nothing old: for these the store is not asked.
    if (entries.length === 0) return 0
    const chosen = (await findWritten(store, ref, entries)) ?? (await write(store, ref, entries))
    const [first] = chosen
    const last = chosen.at(-1)
    if (!first || !last) return 0
    const args = [first[0], last[0], `${chosen.length}`]
    const reply = await scripts.run('trim', accountKeys(ref), args)
    if (reply.word === 'ok') return numberAt(reply, 2)
    // Another gateway was quicker. After a whole batch the next round goes on from there, else the next call does.
    return chosen.length
  }
  return {
    async archive(ref, beforeMs) {
      let total = 0
      for (;;) {
        const count = await archiveSome(ref, beforeMs)
        total += count
        if (count < batch) return total
      }
    },
    open: opener(redis, store),
  }
}

interface ObjectName {
  readonly name: string
  readonly first: string
  readonly last: string
}

/** What all readers of an account share, however many they are: one list of its archive, and one parsed object. */
interface Known {
  readers: number
  /** The newest archived id when the objects were listed. */
  last: string
  objects: readonly ObjectName[]
  /** For each object: the newest id in it and in all objects before it. */
  reach: readonly string[]
  parsed: { readonly name: string; readonly entries: readonly JournalEntry[] } | undefined
}

function opener(redis: Redis, store: ObjectStore): (ref: string) => OldReader {
  const byRef = new Map<string, Known>()
  return (ref) => {
    const known = byRef.get(ref) ?? {
      readers: 0,
      last: '',
      objects: [],
      reach: [],
      parsed: undefined,
    }
    byRef.set(ref, known)
    known.readers++
    return {
      async read(options) {
        const last = await asked(redis.hget(keys.account(ref), 'archived_last'))
        if (!last || !reaches(last, options)) return []
        if (known.last !== last) {
          const objects = await listObjects(store, ref)
          Object.assign(known, { last, objects, reach: reachOf(objects) })
        }
        return readObjects(store, known, options)
      },
      [Symbol.dispose]() {
        if (--known.readers === 0) byRef.delete(ref)
      },
    }
  }
}

/** Whether the read wants anything of what was archived up to `last`. */
function reaches(last: string, { isUpwards, cursor, end }: ReadOptions): boolean {
  const below = isUpwards ? cursor : end
  return below === undefined || compareIds(last, below) > 0
}

function reachOf(objects: readonly ObjectName[]): readonly string[] {
  let most = '0-0'
  return objects.map(({ last }) => {
    if (compareIds(last, most) > 0) most = last
    return most
  })
}

async function listObjects(store: ObjectStore, ref: string): Promise<readonly ObjectName[]> {
  const names = await store.list(`journal/${ref}/`)
  const objects = names.flatMap((name) => {
    const match = /(\d+-\d+)-(\d+-\d+)\.ndjson$/.exec(name)
    return match?.[1] && match[2] ? [{ name, first: match[1], last: match[2] }] : []
  })
  return objects.sort((a, b) => compareIds(a.first, b.first) || compareIds(a.last, b.last))
}

async function readObjects(
  store: ObjectStore,
  known: Known,
  { isUpwards, cursor, end, count }: ReadOptions,
): Promise<readonly JournalEntry[]> {
  const found: JournalEntry[] = []
  const isBeyond = beyond(isUpwards)
  for (const { name, first, last } of objectsFrom(known, isUpwards, cursor)) {
    if (found.length >= count) break
    // Nothing of this object comes before the end.
    if (end !== undefined && !isBeyond(end, isUpwards ? first : last)) break
    const entries = await entriesOf(store, known, name)
    for (const entry of isUpwards ? entries : entries.toReversed()) {
      // Objects of a crashed run may overlap.
      const before = found.at(-1)?.[0] ?? cursor
      const isNew = before === undefined || isBeyond(entry[0], before)
      if (isNew && (end === undefined || isBeyond(end, entry[0]))) found.push(entry)
    }
  }
  return found.slice(0, count)
}

/** Those that may have entries beyond the cursor, in the order of reading. */
function objectsFrom(
  { objects, reach }: Known,
  isUpwards: boolean,
  cursor: string | undefined,
): readonly ObjectName[] {
  if (cursor === undefined) return isUpwards ? objects : objects.toReversed()
  if (isUpwards) return objects.slice(countWhile(reach, (id) => compareIds(id, cursor) <= 0))
  const before = countWhile(objects, ({ first }) => compareIds(first, cursor) < 0)
  return objects.slice(0, before).toReversed()
}

/** How many items at the beginning of a sorted list pass the test; all that follow fail it. */
function countWhile<T>(sorted: readonly T[], test: (item: T) => boolean): number {
  let [from, to] = [0, sorted.length]
  while (from < to) {
    const middle = Math.floor((from + to) / 2)
    const item = sorted[middle]
    if (item !== undefined && test(item)) from = middle + 1
    else to = middle
  }
  return from
}

async function entriesOf(
  store: ObjectStore,
  known: Known,
  name: string,
): Promise<readonly JournalEntry[]> {
  if (known.parsed?.name === name) return known.parsed.entries
  const entries = parseEntries(await store.get(name))
  known.parsed = { name, entries }
  return entries
}

/** Finds the object of a run that ended before it trimmed: the object's entries are exactly the journal's first ones. */
async function findWritten(
  store: ObjectStore,
  ref: string,
  entries: readonly JournalEntry[],
): Promise<readonly JournalEntry[] | undefined> {
  const first = entries[0]?.[0]
  const written = (await listObjects(store, ref)).find((object) => object.first === first)
  if (!written) return undefined
  const count = entries.findIndex(([id]) => id === written.last) + 1
  if (count === 0) return undefined
  const same = entries.slice(0, count)
  return (await store.get(written.name)).equals(formatEntries(same)) ? same : undefined
}

async function write(
  store: ObjectStore,
  ref: string,
  entries: readonly JournalEntry[],
): Promise<readonly JournalEntry[]> {
  const first = entries[0]?.[0]
  if (first === undefined) return []
  const name = `journal/${ref}/${first}-${entries.at(-1)?.[0]}.ndjson`
  const bytes = formatEntries(entries)
  await store.put(name, bytes)
  const kept = await store.get(name)
  if (!kept.equals(bytes)) throw new Error(`The store did not keep ${name} as it was written`)
  return entries
}

function formatEntries(entries: readonly JournalEntry[]): Buffer {
  return Buffer.from(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''))
}

function parseEntries(bytes: Buffer): readonly JournalEntry[] {
  const lines = bytes.toString().split('\n')
  return lines.filter((line) => line !== '').map((line): JournalEntry => JSON.parse(line))
}
