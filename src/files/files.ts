// The files of accounts: reserve and commit an upload, read, list, delete. Nothing is cached. The bytes are in the store;
// a file has a row only while the store has its object. An object without a row is queued in `due` until the store has
// removed it. A file is gone as soon as its session is gone, long before a sweeper comes.

import type { Redis } from '../redis/client.ts'
import { quotaWords } from '../accounts/plan.ts'
import type { Quota } from '../accounts/plan.ts'
import type { Room } from '../accounts/room.ts'
import { GatewayError } from '../errors.ts'
import type { List, Page } from '../http/page.ts'
import { isId } from '../ids.ts'
import { asked } from '../redis/asked.ts'
import { readPage } from '../redis/listing.ts'
import type { Row } from '../redis/listing.ts'
import { keys } from '../redis/keys.ts'
import type { Reply } from '../redis/scripts.ts'
import { soon } from '../sharing/patience.ts'
import type { ObjectStore } from '../store/store.ts'
import { announced, dueMember, lookAgainAfterMs, persistently } from './due.ts'
import { parseRow, rowFields, toFileObject } from './file-row.ts'
import type { FileObject, FileRow } from './file-row.ts'
import type { FileScripts } from './library.ts'
import { drop, dropFilesOf, removeObject } from './removal.ts'

/** An upload under way. */
export interface Upload {
  readonly id: string
  readonly session: string
}

export interface Reservation extends Quota {
  /** Bytes that the upload needs in all, with earlier reservations: asking again counts only the difference. */
  readonly bytes: number
}

const nothing: Reservation = { bytes: 0, quotaBytes: 0 }

export interface FileBookOptions {
  readonly redis: Redis
  readonly scripts: FileScripts
  readonly room: Room
  readonly store: Pick<ObjectStore, 'remove'>
  /** How long an upload may be silent. */
  readonly leaseMs?: number
  /** How long after a failed deletion the sweeper tries. */
  readonly retryMs?: number
}

/** An upload that does not renew its lease is taken for dead. */
export const uploadLeaseMs = 120_000
const firstRetryMs = 30_000

/** How long a caller waits for the store to remove objects. */
const patienceMs = 2000
const storeAtOnce = 4

/**
 * Every method throws `ledger_unavailable` when Redis can't be asked; after a lost reply it asks again first. An upload
 * calls `begin`, then, if need be, `reserve` and `renew` while the object is put, then `commit`. The sweeper gives up an upload that
 * is silent for a lease; from then on `reserve`, `renew` and `commit` throw `storage_unavailable`.
 */
export class FileBook {
  readonly #options: Required<FileBookOptions>

  constructor(options: FileBookOptions) {
    this.#options = { leaseMs: uploadLeaseMs, retryMs: firstRetryMs, ...options }
  }

  /**
   * Records the upload, before its object can exist, and reserves. Throws `session_not_found`, `storage_quota_exceeded`;
   * then there is no record, and it may be called again.
   */
  async begin(ref: string, { id, session }: Upload, needed = nothing): Promise<void> {
    const { redis, scripts, room, leaseMs } = this.#options
    if (!isId('sess', session)) throw new GatewayError('session_not_found')
    const names = [keys.session(ref, session), keys.storage(ref), keys.due(ref), keys.account(ref)]
    const words = [id, reservationWords(needed), `${leaseMs}`]
    const run = (minute: string) => scripts.run('begin', names, [...words, minute])
    const dueMs = Date.now() + leaseMs
    const runOnce = () => announced(redis, { ref, dueMs, run })
    accept(await room.within(ref, () => persistently(redis, runOnce)))
  }

  /** Renews the lease, too. Throws `storage_quota_exceeded`. */
  async reserve(
    ref: string,
    { id, ...needed }: Reservation & { readonly id: string },
  ): Promise<void> {
    const { redis, scripts, room, leaseMs } = this.#options
    const names = [keys.storage(ref), keys.due(ref), keys.account(ref)]
    const words = [id, reservationWords(needed), `${leaseMs}`]
    const run = () => scripts.run('reserve', names, words)
    accept(await room.within(ref, () => persistently(redis, run)))
  }

  /** To be called well within a lease (2 min) when nothing is reserved for long. */
  renew(ref: string, id: string): Promise<void> {
    return this.reserve(ref, { id, ...nothing })
  }

  /**
   * Writes the row in place of the reservation. Throws `session_not_found`, `storage_quota_exceeded`; then the caller
   * must remove the object and call `abandon`. After `ledger_unavailable` the row may be there: the object has to stay,
   * the sweeper decides.
   */
  async commit(ref: string, row: FileRow, quota: Quota): Promise<void> {
    const { redis, scripts, room } = this.#options
    const { id, session, bytes, expiresAt } = row
    const names = [
      keys.session(ref, session),
      keys.files(ref),
      keys.sessionFiles(ref, session),
      keys.file(ref, id),
      keys.storage(ref),
      keys.due(ref),
      keys.account(ref),
    ]
    const head = [`${id} ${session} ${bytes} ${quotaWords(quota)}`, `${expiresAt ?? ''}`]
    const run = (minute: string) =>
      scripts.run('commit', names, [...head, minute, ...rowFields(row)])
    const dueMs = Math.max(Date.now(), (expiresAt ?? 0) * 1000)
    // Only an expiry needs an announcement here: other due things
    // are covered by that of the upload, or of the last sweeper.
    const runOnce = () => (expiresAt === null ? run('0') : announced(redis, { ref, dueMs, run }))
    accept(await room.within(ref, () => persistently(redis, runOnce)))
  }

  /** To be called once the object is gone, or when it never was there. `mayCome`: a put was cut, and the store may yet complete it. */
  async abandon(ref: string, id: string, mayCome = false): Promise<void> {
    const { redis, scripts } = this.#options
    const names = [keys.storage(ref), keys.due(ref)]
    const words = [id, dueMember('upload', id), mayCome ? `${lookAgainAfterMs}` : '0']
    await persistently(redis, () => scripts.run('forget', names, words))
  }

  /** Throws `file_not_found`, also once its session is gone; `file_expired`. */
  async read(ref: string, id: string): Promise<FileRow> {
    const [found = 'gone'] = await asked(findRows(this.#options.redis, ref, [id]))
    if (found === 'expired') throw new GatewayError('file_expired')
    if (typeof found === 'string') throw new GatewayError('file_not_found')
    return found
  }

  /** Undefined for a file for which `read` would throw. */
  async readMany(ref: string, ids: readonly string[]): Promise<readonly (FileRow | undefined)[]> {
    const rows = await asked(findRows(this.#options.redis, ref, ids))
    return rows.map((row) => (typeof row === 'string' ? undefined : row))
  }

  /** Throws `session_not_found`. */
  async list(ref: string, page: Page, session?: string): Promise<List<FileObject>> {
    const { redis } = this.#options
    if (session !== undefined) {
      const isOurs = isId('sess', session) && (await asked(isThere(redis, ref, session)))
      if (!isOurs) throw new GatewayError('session_not_found')
    }
    const rows = {
      ref,
      key: session === undefined ? keys.files(ref) : keys.sessionFiles(ref, session),
      read: async (ids: readonly string[]) => (await findRows(redis, ref, ids)).map(toListed),
    }
    return await asked(readPage(redis, rows, page))
  }

  /** Resolves when the row is gone; the object is removed now, or as soon as the store can. Throws as `read` does. */
  async remove(ref: string, id: string): Promise<void> {
    const { session } = await this.read(ref, id)
    const isOurs = await drop(this.#options, { ref, id, session })
    if (!isOurs) throw new GatewayError('file_not_found')
    // When this fails or takes too long, a sweeper removes the object: it is queued already.
    await soon(removeObject(this.#options, ref, id), patienceMs)
  }

  /** To be called before a session is deleted: if `removeSession` then fails, or never runs, a sweeper does its work. */
  async expectRemoval(ref: string, session: string): Promise<void> {
    const { redis, scripts, retryMs } = this.#options
    const files = keys.sessionFiles(ref, session)
    if (!isId('sess', session) || (await asked(redis.exists(files))) === 0) return
    const names = [keys.storage(ref), keys.due(ref)]
    const run = (minute: string) => scripts.run('expect', names, [session, minute, `${retryMs}`])
    const dueMs = Date.now() + retryMs
    accept(await persistently(redis, () => announced(redis, { ref, dueMs, run })))
  }

  /** Removes all files of a session that was deleted: the first objects here, the rest by a sweeper. */
  async removeSession(ref: string, session: string): Promise<void> {
    if (!isId('sess', session)) return
    const dropped = await dropFilesOf(this.#options, ref, session)
    const removeNext = async () => {
      for (let id = dropped.pop(); id !== undefined; id = dropped.pop()) {
        await removeObject(this.#options, ref, id)
      }
    }
    await soon(Promise.all(Array.from({ length: storeAtOnce }, removeNext)), patienceMs)
  }
}

/** As scripts take it. */
function reservationWords({ bytes, ...quota }: Reservation): string {
  return `${bytes} ${quotaWords(quota)}`
}

function accept({ word }: Reply): void {
  if (word === 'ok') return
  if (word === 'session_not_found' || word === 'storage_quota_exceeded')
    throw new GatewayError(word)
  if (word !== 'lost') throw new TypeError(`A script answered ${word}`)
  throw new GatewayError('storage_unavailable', {
    cause: new Error('The upload was silent for longer than its lease'),
  })
}

/** What a file's id stands for. */
type FileLookup = FileRow | 'expired' | 'hidden' | 'gone'

/** Takes two round trips, because only the row names the session. */
async function findRows(
  redis: Redis,
  ref: string,
  ids: readonly string[],
): Promise<readonly FileLookup[]> {
  const hashes = await Promise.all(ids.map((id) => readHash(redis, ref, id)))
  const rows = hashes.map((hash, at) => hash && parseRow(ids[at] ?? '', hash))
  const sessions = new Set(rows.flatMap((row) => row?.session ?? []))
  const there = new Set<string>()
  await Promise.all(
    [...sessions].map(async (session) => {
      if (await isThere(redis, ref, session)) there.add(session)
    }),
  )
  const nowS = Math.floor(Date.now() / 1000)
  return rows.map((row, at) => {
    if (!row) return isEmpty(hashes[at]) ? 'gone' : 'hidden'
    if (!there.has(row.session)) return 'hidden'
    if ('isExpired' in row) return 'expired'
    return row.expiresAt !== null && row.expiresAt <= nowS ? 'expired' : row
  })
}

function isEmpty(hash: Readonly<Record<string, string>> | undefined): boolean {
  return hash !== undefined && Object.keys(hash).length === 0
}

/** Undefined when the key has another type, and for a malformed id, for which Redis is not asked. */
async function readHash(redis: Redis, ref: string, id: string) {
  if (!isId('file', id)) return undefined
  try {
    return await redis.hgetall(keys.file(ref, id))
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('WRONGTYPE')) return undefined
    throw error
  }
}

async function isThere(redis: Redis, ref: string, session: string): Promise<boolean> {
  return (await redis.exists(keys.session(ref, session))) === 1
}

/** A file that has expired has its id in the zset until it is swept; the list skips it. */
function toListed(found: FileLookup): Row<FileObject> {
  if (found === 'gone') return 'gone'
  if (typeof found === 'string') return 'unreadable'
  return { value: toFileObject(found), bytes: 1024 + found.filename.length }
}
