// The files of accounts: what an upload reserves and leaves behind, found, listed, deleted. Nothing is cached. The bytes are in the
// store; a row is there only while they are, and what has no row any more is queued (due) until the store has let it go.

import type { Redis } from 'ioredis'
import type { List, Page } from '../http/page.ts'
import type { ObjectStore } from '../store/store.ts'
import type { FileObject, FileRow } from './file-row.ts'
import type { FileScripts } from './library.ts'

/** An upload under way. */
export interface Upload {
  readonly id: string
  readonly session: string
}

export interface Reservation {
  readonly id: string
  /** That it needs in all: asked for again, it counts once. */
  readonly bytes: number
  readonly quotaBytes: number
}

/**
 * All throw `ledger_unavailable` where Redis can't be asked; a lost reply is asked for again first. Uploads: begin, reserve and
 * renew as it goes on, then the object is put, then commit. One that does not go on in a lease is given up by the sweeper, and
 * reserve, renew and commit throw `storage_unavailable`.
 */
export interface FileBook {
  /** An object of this id may come to be. Throws `session_not_found`. */
  begin(ref: string, upload: Upload): Promise<void>
  /** Renews the lease, too. Throws `storage_quota_exceeded`. */
  reserve(ref: string, reservation: Reservation): Promise<void>
  /** Well within a lease (2 min) where nothing is reserved for long. */
  renew(ref: string, id: string): Promise<void>
  /**
   * The row, in place of what was reserved. Throws `session_not_found`, `storage_quota_exceeded`; then the object is the caller's to
   * take away, and `abandon` after it. After `ledger_unavailable` nobody knows: the object has to stay, the sweeper finds out.
   */
  commit(ref: string, row: FileRow, quotaBytes: number): Promise<void>
  /** After the object is gone, or was never there. */
  abandon(ref: string, id: string): Promise<void>
  /** Throws `file_not_found`, also once its session is gone; `file_expired`. */
  read(ref: string, id: string): Promise<FileRow>
  /** Undefined for those that `read` throws for. */
  readMany(ref: string, ids: readonly string[]): Promise<readonly (FileRow | undefined)[]>
  /** Throws `session_not_found`. */
  list(ref: string, page: Page, session?: string): Promise<List<FileObject>>
  /** Done when the row is away; the object goes now, or as soon as the store can. Throws as `read` does. */
  remove(ref: string, id: string): Promise<void>
  /** All files of a session that has gone. */
  removeSession(ref: string, session: string): Promise<void>
}

export interface FileBookOptions {
  readonly redis: Redis
  readonly scripts: FileScripts
  readonly store: Pick<ObjectStore, 'remove'>
  /** How long an upload may be silent. */
  readonly leaseMs?: number
  /** How long after a failed deletion the sweeper tries. */
  readonly retryMs?: number
}

export function createFileBook(_options: FileBookOptions): FileBook {
  throw new Error('not yet')
}
