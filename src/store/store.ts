// Where bytes live: the face of the drivers (disk, S3), what is a name, and the error for what is not there. Metadata
// lives in Redis, not here. Nothing is locked: the last put of a name wins.

import type { Readable } from 'node:stream'
import { GatewayError } from '../errors.ts'

export interface ObjectStore {
  /**
   * There whole or not at all when it settles; acknowledged means durable. A stream may be of any length and takes
   * bounded memory; its chunks are given away, the store frees them. Rejects with the stream's own error or the signal's reason, where these ended it; every other failure
   * is GatewayError storage_unavailable. Nothing is left after a rejection, as far as the store could be told: one that
   * went away may have all of it, or what `abandon` finds.
   */
  put(name: string, content: Uint8Array | Readable, options?: PutOptions): Promise<void>
  /** Small objects, whole. Throws NoSuchObject. */
  get(name: string): Promise<Buffer>
  /** Opened when it resolves; throws NoSuchObject. Destroying it frees what it holds. */
  read(name: string, range?: ByteRange): Promise<Readable>
  /** No error where there is none. */
  remove(name: string): Promise<void>
  /** The object, and whatever a put of it that was cut short (kill -9) has left. */
  abandon(name: string): Promise<void>
  /** Names that begin with the prefix, sorted by their UTF-16 units. */
  list(prefix: string): Promise<string[]>
  /** Names of puts that are under way or were cut short, once for each of them, sorted. */
  unfinished(prefix: string): Promise<string[]>
  /** S3 only: a URL that serves the object, with these headers, to whoever has it. */
  presign?(name: string, options: PresignOptions): Promise<string>
  close(): Promise<void>
}

export interface PutOptions {
  readonly signal?: AbortSignal
  /** Refused with `storage_unavailable` where it would use up what the disk store keeps free for others. */
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

export class NoSuchObject extends Error {
  override readonly name = 'NoSuchObject'

  constructor(object: string, options?: ErrorOptions) {
    super(`there is no object ${object}`, options)
  }
}

// Letters that mean the same in every file system and every S3 server, parts that are never `.`, `..` or hidden.
const goodPart = /^[A-Za-z0-9_=-][A-Za-z0-9_=.-]*$/

/** A file's name may have 255 bytes, and the disk store's temporary ones are made of the whole name. */
const longestName = 200

export function isName(text: string): boolean {
  return text.length <= longestName && text.split('/').every((part) => goodPart.test(part))
}

/** Throws TypeError on what could lead elsewhere. */
export function checkName(text: string): void {
  if (!isName(text)) throw new TypeError(`not a name for an object: ${quote(text)}`)
}

/** The same of a prefix: all of it up to the last slash has to be good. */
export function checkPrefix(text: string): void {
  const folder = text.slice(0, text.lastIndexOf('/') + 1)
  if (folder !== '' && !isName(folder.slice(0, -1))) {
    throw new TypeError(`not a prefix of objects: ${quote(text)}`)
  }
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}

/** A failure of the store itself, as everyone above knows it. */
export function storageError(cause: unknown): Error {
  const isTold = cause instanceof GatewayError || cause instanceof NoSuchObject
  return isTold ? cause : new GatewayError('storage_unavailable', { cause })
}
