// Files as the rest of the gateway has them: their rows (files.ts) and their bytes (the store) kept in step. The record in
// Redis comes first, then the object, then the row in the record's place: whatever is cut short, the sweeper finds it.

import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { GatewayError, hasCode } from '../errors.ts'
import { newId, secondsOf } from '../ids.ts'
import { NoSuchObject } from '../store/store.ts'
import type { ByteRange, ObjectStore } from '../store/store.ts'
import { objectName } from './file-row.ts'
import type { FileRow } from './file-row.ts'
import type { FileBook } from './files.ts'
import { soon } from './upload/patience.ts'
import type { Quota } from '../accounts/quota.ts'
import { receiveUpload } from './upload/upload.ts'
import type { UploadOptions } from './upload/upload.ts'

/** Below it, by id. */
export const filesPath = '/api/files'

export interface Shelf {
  readonly book: FileBook
  /** A file from a form. Throws what receiveUpload and the book refuse; then nothing of it is left, or the sweeper's. */
  receive(req: IncomingMessage, options: ReceiveOptions): Promise<FileRow>
  /** A file that is in memory. */
  keep(content: Buffer, file: KeptFile): Promise<FileRow>
  /** Throws `file_not_found` where the object is not there. */
  open(ref: string, id: string, range?: ByteRange): Promise<Readable>
  /** The whole of a small one. */
  load(ref: string, id: string): Promise<Buffer>
}

interface Owner extends Quota {
  readonly ref: string
}

export interface ReceiveOptions extends Owner, Omit<UploadOptions, 'begin' | 'reserve' | 'put'> {}

export interface KeptFile
  extends Owner, Pick<FileRow, 'id' | 'session' | 'filename' | 'contentType' | 'sha256'> {
  readonly signal: AbortSignal
}

/** Well below a lease: the lease of an upload that waits for its client must not end. */
const defaultRenewEveryMs = 30_000

export function createShelf(
  book: FileBook,
  store: ObjectStore,
  renewEveryMs = defaultRenewEveryMs,
): Shelf {
  const shelf = { book, store, renewEveryMs }
  return {
    book,
    receive: (req, options) => receive(shelf, req, options),
    keep: (content, file) => keep(shelf, content, file),
    open: (ref, id, range) => asFile(store.read(objectName(ref, id), range)),
    load: (ref, id) => asFile(store.get(objectName(ref, id))),
  }
}

/** How long who is refused waits for a store that hangs: no longer than a drain does. */
const patienceMs = 5000

interface Parts {
  readonly book: FileBook
  readonly store: ObjectStore
  readonly renewEveryMs: number
}

async function receive(
  parts: Parts,
  req: IncomingMessage,
  { ref, quotaBytes, unpaidBytes, ...options }: ReceiveOptions,
): Promise<FileRow> {
  const { book, store } = parts
  const id = newId('file')
  const { signal } = options
  const quota = { quotaBytes, ...(unpaidBytes !== undefined && { unpaidBytes }) }
  return await recorded(parts, { ref, id, signal }, async (begin, going) => {
    const received = await receiveUpload(req, {
      ...options,
      signal: going,
      begin: ({ session }) => begin(session),
      reserve: (bytes) => book.reserve(ref, { id, bytes, ...quota }),
      put: (content) =>
        store.put(objectName(ref, id), content, { signal: going, leavesReserve: true }),
    })
    const { expiresAfterS, ...rest } = received
    const createdAt = Math.floor(Date.now() / 1000)
    const expiresAt = expiresAfterS === null ? null : createdAt + expiresAfterS
    return { row: { ...rest, id, createdAt, expiresAt }, quota }
  })
}

async function keep(
  parts: Parts,
  content: Buffer,
  { ref, quotaBytes, unpaidBytes, signal, ...file }: KeptFile,
): Promise<FileRow> {
  const { book, store } = parts
  const { id, session } = file
  const quota = { quotaBytes, ...(unpaidBytes !== undefined && { unpaidBytes }) }
  const bytes = content.length
  return await recorded(parts, { ref, id, signal }, async (begin, going) => {
    await begin(session)
    await book.reserve(ref, { id, bytes, ...quota })
    await store.put(objectName(ref, id), content, { signal: going, leavesReserve: true })
    const row = { ...file, bytes, createdAt: secondsOf(id), expiresAt: null, purpose: 'vision' }
    return { row, quota }
  })
}

interface ObjectOwner {
  readonly ref: string
  readonly id: string
}

interface Stored {
  readonly row: FileRow
  readonly quota: Quota
}

/** Puts the object there, its record `begin`s before it. `going` ends when the record is lost. */
type Put = (begin: (session: string) => Promise<void>, going: AbortSignal) => Promise<Stored>

/** Puts the row in the record's place, or takes both back. */
async function recorded(
  { book, store, renewEveryMs }: Parts,
  { ref, id, signal }: ObjectOwner & { readonly signal: AbortSignal },
  put: Put,
): Promise<FileRow> {
  const lost = new AbortController()
  let isCommitting = false
  let renewing: NodeJS.Timeout | undefined
  const renew = () => void book.renew(ref, id).catch((error: unknown) => loseBy(error, lost))
  const begin = (session: string) => {
    // Where the reply to it is lost, it may be there, too.
    renewing = setInterval(renew, renewEveryMs).unref()
    return book.begin(ref, { id, session })
  }
  try {
    const { row, quota } = await put(begin, AbortSignal.any([signal, lost.signal]))
    isCommitting = true
    await book.commit(ref, row, quota)
    return row
  } catch (error) {
    // The row may be there: the sweeper finds out.
    const isUnclear = isCommitting && hasCode(error, 'ledger_unavailable')
    if (renewing && !isUnclear) {
      await soon(giveUp({ book, store }, { ref, id, mayCome: isCut(error) }), patienceMs)
    }
    throw error
  } finally {
    clearInterval(renewing)
  }
}

/** A sweeper has taken it for dead. Where Redis could not be asked, the next one tells. */
function loseBy(error: unknown, lost: AbortController): void {
  if (hasCode(error, 'storage_unavailable')) lost.abort(error)
}

/** By time, by the network or by our own end: a store that has all of an object may make it after it was taken away. */
function isCut(error: unknown): boolean {
  return hasCode(error, 'storage_unavailable') || hasCode(error, 'server_draining')
}

/** What fails here is the sweeper's when the lease has ended. */
async function giveUp(
  { book, store }: Omit<Parts, 'renewEveryMs'>,
  { ref, id, mayCome }: ObjectOwner & { readonly mayCome: boolean },
): Promise<void> {
  await store.abandon(objectName(ref, id))
  await book.abandon(ref, id, mayCome)
}

/** It was deleted between the look at its row and now. */
async function asFile<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof NoSuchObject) throw new GatewayError('file_not_found', { cause: error })
    throw error
  }
}
