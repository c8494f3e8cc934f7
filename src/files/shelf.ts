// Files for the rest of the gateway: keeps their rows (files.ts) and their bytes (the store) in step. The upload's
// record in Redis comes first, then the object, then the row in the record's place: so the sweeper finds every upload
// that was cut.

import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { GatewayError, hasCode } from '../errors.ts'
import { newId, secondsOf } from '../ids.ts'
import { NoSuchObject } from '../store/store.ts'
import type { ByteRange, ObjectStore } from '../store/store.ts'
import { objectName } from './file-row.ts'
import type { FileRow } from './file-row.ts'
import type { FileBook } from './files.ts'
import { soon } from '../sharing/patience.ts'
import type { Quota } from '../accounts/plan.ts'
import { receiveUpload } from './upload/upload.ts'
import type { UploadOptions } from './upload/upload.ts'

/** A file is at this path plus its id. */
export const filesPath = '/api/files'

interface Owner extends Quota {
  readonly ref: string
}

export interface ReceiveOptions extends Owner, Omit<UploadOptions, 'reserve' | 'put'> {}

export interface KeptFile
  extends Owner, Pick<FileRow, 'id' | 'session' | 'filename' | 'contentType' | 'sha256'> {
  readonly signal: AbortSignal
}

/** Well below a lease: the lease of an upload that waits for its client must not end. */
const defaultRenewEveryMs = 30_000

/** How long a refused client waits for a hanging store to clean up: no longer than a drain takes. */
const patienceMs = 5000

interface ObjectOwner {
  readonly ref: string
  readonly id: string
}

interface Recorded extends ObjectOwner {
  readonly quota: Quota
  readonly signal: AbortSignal
}

/** Its first call makes the record. */
type Reserve = (bytes: number, session: string) => Promise<void>

/** Reserves, then puts the object. `going` aborts when the record is lost. */
type Put = (reserve: Reserve, going: AbortSignal) => Promise<FileRow>

export class Shelf {
  readonly book: FileBook
  readonly #store: ObjectStore
  readonly #renewEveryMs: number

  constructor(book: FileBook, store: ObjectStore, renewEveryMs = defaultRenewEveryMs) {
    this.book = book
    this.#store = store
    this.#renewEveryMs = renewEveryMs
  }

  /** Stores a file from a form. Throws what receiveUpload and the book throw; then nothing is left, or the sweeper removes it. */
  async receive(
    req: IncomingMessage,
    { ref, quotaBytes, unpaidBytes, ...options }: ReceiveOptions,
  ): Promise<FileRow> {
    const id = newId('file')
    const { signal } = options
    const quota = { quotaBytes, unpaidBytes }
    return await this.#recorded({ ref, id, quota, signal }, async (reserve, going) => {
      const received = await receiveUpload(req, {
        ...options,
        signal: going,
        reserve: (bytes, { session }) => reserve(bytes, session),
        put: (content) => this.#put({ ref, id }, content, going),
      })
      const { expiresAfterS, ...rest } = received
      const createdAt = Math.floor(Date.now() / 1000)
      const expiresAt = expiresAfterS === null ? null : createdAt + expiresAfterS
      return { ...rest, id, createdAt, expiresAt }
    })
  }

  /** Stores a file that is in memory. */
  async keep(
    content: Buffer,
    { ref, quotaBytes, unpaidBytes, signal, ...file }: KeptFile,
  ): Promise<FileRow> {
    const { id, session } = file
    const quota = { quotaBytes, unpaidBytes }
    const bytes = content.length
    return await this.#recorded({ ref, id, quota, signal }, async (reserve, going) => {
      await reserve(bytes, session)
      await this.#put({ ref, id }, content, going)
      return { ...file, bytes, createdAt: secondsOf(id), expiresAt: null, purpose: 'vision' }
    })
  }

  /** Throws `file_not_found` where the object is not there. */
  open(ref: string, id: string, range?: ByteRange): Promise<Readable> {
    return asFile(this.#store.read(objectName(ref, id), range))
  }

  /** Reads a small file as a whole. Throws as `open` does. */
  load(ref: string, id: string): Promise<Buffer> {
    return asFile(this.#store.get(objectName(ref, id)))
  }

  #put({ ref, id }: ObjectOwner, content: Buffer | Readable, signal: AbortSignal): Promise<void> {
    return this.#store.put(objectName(ref, id), content, { signal, leavesReserve: true })
  }

  /** Puts the row in the record's place, or takes both back. */
  async #recorded({ ref, id, quota, signal }: Recorded, put: Put): Promise<FileRow> {
    const { book } = this
    const lost = new AbortController()
    let hasBegun = false
    let isCommitting = false
    let renewing: NodeJS.Timeout | undefined
    const renew = () => void book.renew(ref, id).catch((error: unknown) => loseBy(error, lost))
    const reserve: Reserve = async (bytes, session) => {
      if (hasBegun) return await book.reserve(ref, { id, bytes, ...quota })
      // Set before the call: when its reply is lost, the record may still be there.
      renewing ??= setInterval(renew, this.#renewEveryMs).unref()
      await book.begin(ref, { id, session }, { bytes, ...quota })
      hasBegun = true
    }
    try {
      const row = await put(reserve, AbortSignal.any([signal, lost.signal]))
      isCommitting = true
      await book.commit(ref, row, quota)
      return row
    } catch (error) {
      // The row may have been written: the sweeper decides.
      const isUnclear = isCommitting && hasCode(error, 'ledger_unavailable')
      if (renewing && !isUnclear) await soon(this.#giveUp({ ref, id }, isCut(error)), patienceMs)
      throw error
    } finally {
      clearInterval(renewing)
    }
  }

  /** When this fails, the sweeper does it after the lease. */
  async #giveUp({ ref, id }: ObjectOwner, mayCome: boolean): Promise<void> {
    await this.#store.abandon(objectName(ref, id))
    await this.book.abandon(ref, id, mayCome)
  }
}

/** Aborts when a sweeper has taken the upload for dead. When Redis could not be asked, the next renewal tells. */
function loseBy(error: unknown, lost: AbortController): void {
  if (hasCode(error, 'storage_unavailable')) lost.abort(error)
}

/** Cut by a time-out, the network or our own drain: a store that has all bytes may complete the object after its removal. */
function isCut(error: unknown): boolean {
  return hasCode(error, 'storage_unavailable') || hasCode(error, 'server_draining')
}

/** Throws `file_not_found` when the object was removed after the caller had read the row. */
async function asFile<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof NoSuchObject) throw new GatewayError('file_not_found', { cause: error })
    throw error
  }
}
