// What a kind of store declares (disk, S3), the interface of its stores, the rules for object names, and the error for a missing object.
// Metadata is in Redis, not here. Nothing is locked: the last put of a name wins.

import type { Readable } from 'node:stream'
import type { z } from '../config/schema.ts'
import { GatewayError } from '../errors.ts'

export interface ObjectStore {
  /**
   * When this settles, the object is there as a whole or not at all; when it resolves, the object is durable. A stream
   * may have any length and takes bounded memory; the store frees its chunks. Rejects with the stream's own error or
   * the signal's reason when one of these ended it; every other failure is GatewayError storage_unavailable. A
   * rejection leaves nothing behind, unless the store could not be reached: then the whole object may be there, or
   * parts that `abandon` finds.
   */
  put(name: string, content: Uint8Array | Readable, options?: PutOptions): Promise<void>
  /** Small objects, whole. Throws NoSuchObject. */
  get(name: string): Promise<Buffer>
  /** Resolves when the object is open; throws NoSuchObject. Destroying the stream frees its socket or file. */
  read(name: string, range?: ByteRange): Promise<Readable>
  /** A missing object is no error. */
  remove(name: string): Promise<void>
  /** Removes the object, and all that is left of puts of it that were cut short (kill -9). */
  abandon(name: string): Promise<void>
  /** Names that begin with the prefix, sorted by their UTF-16 units. */
  list(prefix: string): Promise<string[]>
  /** Names of puts that are under way or were cut short, once for each of them, sorted. */
  unfinished(prefix: string): Promise<string[]>
  /** Where the store has such URLs: one that serves the object, with these headers, to whoever has it. */
  presign?(name: string, options: PresignOptions): Promise<string>
  close(): Promise<void>
}

export interface PutOptions {
  readonly signal?: AbortSignal
  /** Refuse with `storage_unavailable` once less is free than the store keeps for others. */
  readonly leavesReserve?: boolean
}

export interface ByteRange {
  readonly start: number
  /** Inclusive. */
  readonly end: number
}

export interface PresignOptions {
  readonly expiresS: number
  readonly contentType: string
  /** The whole header Content-Disposition. */
  readonly disposition: string
}

/** Whatever the gateway has to know of a kind of store: a new kind is a file with one of these, and a row in drivers.ts. */
export interface StoreDriver<Settings = unknown> {
  /** Its block, with a sentence for itself and for each key. What comes out of it is what the other functions get. */
  readonly keys: z.ZodType<Settings>
  /** The shortest block, as a message shows it. */
  readonly example: string
  open(settings: Settings, options: DriverOptions): ObjectStore | Promise<ObjectStore>
  /** The most memory that an upload takes besides its socket's, whatever its length; by default none. */
  uploadBytes?(settings: Settings): number
  /** Texts that must never be logged. */
  secrets?(settings: Settings): readonly string[]
}

export interface DriverOptions {
  /** For a trial: no call takes longer. By default a call is tried as long as the driver likes. */
  readonly trialMs?: number | undefined
}

export class NoSuchObject extends Error {
  override readonly name = 'NoSuchObject'

  constructor(object: string, options?: ErrorOptions) {
    super(`there is no object ${object}`, options)
  }
}

// Only letters that mean the same in every file system and S3 server; a part is never `.`, `..` or hidden.
const goodPart = /^[A-Za-z0-9_=-][A-Za-z0-9_=.-]*$/

/** A file name may have 255 bytes, and the disk store's temporary file names contain the whole object name. */
const longestName = 200

export function isName(text: string): boolean {
  return text.length <= longestName && text.split('/').every((part) => goodPart.test(part))
}

/** Throws TypeError for a name that could lead out of the store. */
export function checkName(text: string): void {
  if (!isName(text)) throw new TypeError(`not a name for an object: ${quote(text)}`)
}

/** The same for a prefix: all of it up to the last slash must be a valid name. */
export function checkPrefix(text: string): void {
  const folder = text.slice(0, text.lastIndexOf('/') + 1)
  if (folder !== '' && !isName(folder.slice(0, -1))) {
    throw new TypeError(`not a prefix of objects: ${quote(text)}`)
  }
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}

/** Turns a failure of the store into `storage_unavailable`; other errors of the gateway stay as they are. */
export function storageError(cause: unknown): Error {
  const isTold = cause instanceof GatewayError || cause instanceof NoSuchObject
  return isTold ? cause : new GatewayError('storage_unavailable', { cause })
}
