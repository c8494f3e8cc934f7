// The files of accounts: reserve and commit an upload, read, list, delete. Nothing is cached. The bytes are in the
// store; a file has a row only while the store has its object. An object without a row is queued in `due` until the
// store has removed it.

import type { Redis } from 'ioredis'
import { GatewayError } from '../errors.ts'
import type { List, Page } from '../http/page.ts'
import { isId } from '../ids.ts'
import { keys } from '../redis/redis.ts'
import type { Room } from '../accounts/room.ts'
import type { Reply } from '../redis/scripts.ts'
import type { ObjectStore } from '../store/store.ts'
import { announced, dueMember, lookAgainAfterMs, persistently } from './due.ts'
import { rowFields } from './file-row.ts'
import type { FileObject, FileRow } from './file-row.ts'
import type { FileScripts } from './library.ts'
import { quotaWords } from '../accounts/plan.ts'
import type { Quota } from '../accounts/plan.ts'
import { removeFile, removeFilesOf } from './removal.ts'
import { listRows, readRow, readRows } from './rows.ts'

/** An upload under way. */
export interface Upload {
  readonly id: string
  readonly session: string
}

export interface Reservation extends Quota {
  readonly id: string
  /** Bytes that the upload needs in all, with earlier reservations: asking again counts only the difference. */
  readonly bytes: number
}

/**
 * Every method throws `ledger_unavailable` when Redis can't be asked; after a lost reply it asks again first. An upload
 * calls `begin`, then `reserve` and `renew` while the object is put, then `commit`. The sweeper gives up an upload that
 * is silent for a lease; from then on `reserve`, `renew` and `commit` throw `storage_unavailable`.
 */
export interface FileBook {
  /** Records the upload, before its object can exist. Throws `session_not_found`. */
  begin(ref: string, upload: Upload): Promise<void>
  /** Renews the lease, too. Throws `storage_quota_exceeded`. */
  reserve(ref: string, reservation: Reservation): Promise<void>
  /** To be called well within a lease (2 min) when nothing is reserved for long. */
  renew(ref: string, id: string): Promise<void>
  /**
   * Writes the row in place of the reservation. Throws `session_not_found`, `storage_quota_exceeded`; then the caller
   * must remove the object and call `abandon`. After `ledger_unavailable` the row may be there: the object has to stay,
   * the sweeper decides.
   */
  commit(ref: string, row: FileRow, quota: Quota): Promise<void>
  /** To be called once the object is gone, or when it never was there. `mayCome`: a put was cut, and the store may yet complete it. */
  abandon(ref: string, id: string, mayCome?: boolean): Promise<void>
  /** Throws `file_not_found`, also once its session is gone; `file_expired`. */
  read(ref: string, id: string): Promise<FileRow>
  /** Undefined for a file for which `read` would throw. */
  readMany(ref: string, ids: readonly string[]): Promise<readonly (FileRow | undefined)[]>
  /** Throws `session_not_found`. */
  list(ref: string, page: Page, session?: string): Promise<List<FileObject>>
  /** Resolves when the row is gone; the object is removed now, or as soon as the store can. Throws as `read` does. */
  remove(ref: string, id: string): Promise<void>
  /** Removes all files of a session that was deleted. */
  removeSession(ref: string, session: string): Promise<void>
}

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

export function createFileBook({
  leaseMs = uploadLeaseMs,
  retryMs = firstRetryMs,
  ...options
}: FileBookOptions): FileBook {
  const { redis } = options
  const uploads = { ...options, leaseMs }
  const removal = { ...options, retryMs }
  return {
    begin: (ref, upload) => begin(uploads, ref, upload),
    reserve: (ref, reservation) => reserve(uploads, ref, reservation),
    renew: (ref, id) => reserve(uploads, ref, { id, bytes: 0, quotaBytes: 0 }),
    commit: (ref, row, quota) => commit(uploads, ref, { row, ...quota }),
    abandon: (ref, id, mayCome = false) => abandon(uploads, ref, { id, mayCome }),
    read: (ref, id) => readRow(redis, ref, id),
    readMany: (ref, ids) => readRows(redis, ref, ids),
    list: (ref, page, session) => listRows(redis, ref, { page, session }),
    remove: (ref, id) => removeFile(removal, ref, id),
    removeSession: (ref, session) => removeFilesOf(removal, ref, session),
  }
}

type LeaseOptions = Omit<FileBookOptions, 'retryMs'> & { readonly leaseMs: number }

async function begin(
  { redis, scripts, leaseMs }: LeaseOptions,
  ref: string,
  { id, session }: Upload,
): Promise<void> {
  if (!isId('sess', session)) throw new GatewayError('session_not_found')
  const names = [keys.session(ref, session), keys.storage(ref), keys.due(ref)]
  const reply = await persistently(redis, () =>
    announced(redis, {
      ref,
      dueMs: Date.now() + leaseMs,
      run: (minute) => scripts.run('begin', names, [id, `${leaseMs}`, minute]),
    }),
  )
  accept(reply)
}

async function reserve(
  { redis, scripts, room, leaseMs }: LeaseOptions,
  ref: string,
  { id, bytes, ...quota }: Reservation,
): Promise<void> {
  const names = [keys.storage(ref), keys.due(ref), keys.account(ref)]
  const words = [id, `${bytes}`, quotaWords(quota), `${leaseMs}`]
  const run = () => scripts.run('reserve', names, words)
  accept(await room.within(ref, () => persistently(redis, run)))
}

interface Commitment extends Quota {
  readonly row: FileRow
}

async function commit(
  { redis, scripts, room }: LeaseOptions,
  ref: string,
  { row, ...quota }: Commitment,
): Promise<void> {
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
  const run = (minute: string) =>
    scripts.run('commit', names, [
      `${id} ${session} ${bytes} ${quotaWords(quota)}`,
      `${expiresAt ?? ''}`,
      minute,
      ...rowFields(row),
    ])
  const dueMs = Math.max(Date.now(), (expiresAt ?? 0) * 1000)
  // Only an expiry needs an announcement here: other due things
  // are covered by that of the upload, or of the last sweeper.
  const runOnce = () => (expiresAt === null ? run('0') : announced(redis, { ref, dueMs, run }))
  const reply = await room.within(ref, () => persistently(redis, runOnce))
  accept(reply)
}

interface Abandoned {
  readonly id: string
  readonly mayCome: boolean
}

async function abandon(
  { redis, scripts }: LeaseOptions,
  ref: string,
  { id, mayCome }: Abandoned,
): Promise<void> {
  const names = [keys.storage(ref), keys.due(ref)]
  const words = [id, dueMember('upload', id), mayCome ? `${lookAgainAfterMs}` : '0']
  await persistently(redis, () => scripts.run('forget', names, words))
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
