// Receives one file by multipart/form-data: bounded in memory whatever its length, hashed and sniffed on its way to
// wherever `put` takes it. The content ends only when the whole form is known to be good, so that a store never
// completes the object of a bad one. Knows nothing of stores, accounts or rows.

import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'

export interface UploadFields {
  /** As the client wrote it; `begin` says whether there is such a one. */
  readonly session: string
  readonly purpose: string
  readonly expiresAfterS: number | null
  /** Cleaned: file-name.ts. */
  readonly filename: string
}

export interface Received extends UploadFields {
  readonly bytes: number
  /** Hex, lower case. */
  readonly sha256: string
  /** By what the bytes are, never by what the client says. */
  readonly contentType: string
}

export interface UploadOptions {
  /** Of the request: `?session_id=`. */
  readonly query: URLSearchParams
  readonly maxBytes: number
  /** Without a byte from the client; what we ourselves take does not count. */
  readonly idleMs: number
  /** Content types that may be stored, of those sniffed: `*\/*`, `image/*`, `application/pdf`. */
  readonly allow: readonly string[]
  readonly signal: AbortSignal
  /** The fields before the file are good: called once, before the first byte of the file goes on. Throws to refuse. */
  begin(fields: UploadFields): Promise<void>
  /** Awaited before the file's bytes pass what was reserved before; a slice ahead, never more than `maxBytes`. Throws to refuse. */
  reserve(totalBytes: number): Promise<void>
  /** Where the content goes. It ends only when the form is good, and is destroyed with the cause otherwise. */
  put(content: Readable): Promise<void>
  /** For a metric: bytes of the file as they go on. */
  onBytes?(count: number): void
}

/**
 * Rejects only after `put` has settled, with the first cause: a refusal of the form, `request_timeout`, ClientLeft,
 * `signal`'s reason, or what `begin`, `reserve` or `put` threw. The request is then left paused, for reply.ts to end.
 */
export function receiveUpload(req: IncomingMessage, options: UploadOptions): Promise<Received> {
  void req
  return Promise.reject(new Error(`not built yet: ${options.maxBytes}`))
}
