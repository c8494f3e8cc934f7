// A file on its way in, piece by piece as the reader asks for it; continues by itself when the connection breaks, as
// long as the file is the same. Promises that a download which ends without an error is whole.

/// <reference lib="esnext.disposable" preserve="true" />

import { Again } from './again.ts'
import type { Attempt } from './attempt.ts'
import { ConnectionError, IncompleteStreamError, TollgateError } from './errors.ts'
import { streamOf } from './upload.ts'
import type { OnProgress } from './upload.ts'

interface DownloadSetup {
  readonly start: number
  /** The tag of the part that is there already. */
  readonly etag: string | undefined
  /** Requests the file from this byte on, if it still has this tag. One attempt. */
  readonly reopen: (start: number, etag: string, signal: AbortSignal) => Promise<Attempt>
  readonly onProgress?: OnProgress | undefined
  readonly signal?: AbortSignal | undefined
}

/** Can be read once, in one of its ways: a loop over its pieces, `stream()`, `bytes()`, `text()` or `blob()`. */
export class Download implements AsyncIterable<Uint8Array>, AsyncDisposable {
  /** The type that the gateway found. */
  readonly contentType: string | null
  readonly filename: string | null
  /** With `start`, it continues the download later. */
  readonly etag: string | null
  /** The place of its first byte in the file. */
  readonly start: number
  readonly #setup: DownloadSetup
  readonly #again: Again
  #attempt: Attempt
  #at: number
  #size: number | null

  /** @internal */
  constructor(attempt: Attempt, setup: DownloadSetup) {
    const { headers } = attempt.response
    this.#attempt = attempt
    this.#setup = setup
    this.#again = new Again(setup.signal)
    this.#at = this.start = setup.start
    this.contentType = headers.get('content-type')
    this.filename = filenameOf(headers.get('content-disposition') ?? '')
    // The tag of compressed bytes is not that of the file.
    this.etag = headers.has('content-encoding') ? null : headers.get('etag')
    this.#size = sizeOf(attempt)
    ensureAt(attempt, setup.start, setup.etag)
  }

  /** The size of the whole file in bytes; null when the server has not said it. */
  get size(): number | null {
    return this.#size
  }

  /** Bytes of the file so far, including those before `start`: the place to continue from. */
  get position(): number {
    return this.#at
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, undefined> {
    const { onProgress } = this.#setup
    try {
      for (;;) {
        const piece = await this.#read()
        if (!piece) return undefined
        this.#again.throwIfLeft()
        this.#again.progress()
        this.#at += piece.length
        onProgress?.(this.#at, this.size ?? undefined)
        yield piece
      }
    } finally {
      this.close()
    }
  }

  stream(): ReadableStream<Uint8Array<ArrayBuffer>> {
    return streamOf(this) as ReadableStream<Uint8Array<ArrayBuffer>>
  }

  /** The whole file, in memory. */
  async bytes(): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await new Response(this.stream()).arrayBuffer())
  }

  /** The whole file, in memory, as UTF-8. */
  async text(): Promise<string> {
    return await new Response(this.stream()).text()
  }

  /** The whole file, stored where the runtime keeps Blobs. */
  async blob(): Promise<Blob> {
    const type = this.contentType ?? ''
    return await new Response(this.stream(), { headers: { 'content-type': type } }).blob()
  }

  /** Reading it afterwards rejects: half a file is no file. */
  close(): void {
    const reason = new TollgateError('The download was read or closed already.')
    this.#again.leave(reason)
    this.#attempt.close(reason)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }

  async #read(): Promise<Uint8Array | undefined> {
    for (;;) {
      let lost: unknown
      try {
        const piece = await this.#attempt.read()
        if (piece || this.size === null) return piece
      } catch (error) {
        if (!(error instanceof ConnectionError)) throw error
        lost = error
      }
      if (this.#at === this.size) return undefined
      this.#attempt = await this.#goOn(lost)
      this.#size ??= sizeOf(this.#attempt)
      // Closed while the answer was on its way.
      this.#again.throwIfLeft()
    }
  }

  async #goOn(lost: unknown): Promise<Attempt> {
    const { etag } = this
    if (!etag || etag.startsWith('W/')) {
      throw new IncompleteStreamError(
        'The download broke off, and has no strong tag to go on with.',
        {
          cause: lost,
        },
      )
    }
    return await this.#again.open(lost, async (signal) => {
      const attempt = await this.#setup.reopen(this.#at, etag, signal)
      ensureAt(attempt, this.#at, etag)
      return attempt
    })
  }
}

/** Refuses an answer that is not the rest of the same file. `etag`: the tag of the earlier part. */
function ensureAt(attempt: Attempt, start: number, etag?: string): void {
  const { status, headers } = attempt.response
  const isSame = !etag || (headers.get('etag') || etag) === etag
  const isRest = status === 206 ? rangeOf(attempt)?.first === start : start === 0
  if (isSame && isRest) return
  attempt.close()
  throw new IncompleteStreamError('The file has changed, or can’t be read from its middle.')
}

function sizeOf(attempt: Attempt): number | null {
  const { status, headers } = attempt.response
  if (status === 206) return rangeOf(attempt)?.size ?? null
  const length = headers.get('content-length')
  // The length of compressed bytes is not that of the file.
  return length === null || headers.has('content-encoding') ? null : Number(length)
}

function rangeOf({
  response,
}: Attempt): { readonly first: number; readonly size: number | null } | undefined {
  const [, first, size] =
    /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(response.headers.get('content-range') ?? '') ?? []
  if (first === undefined) return undefined
  return { first: Number(first), size: size === '*' ? null : Number(size) }
}

function filenameOf(disposition: string): string | null {
  const [, encoded] = /filename\*=UTF-8''([^;\s]+)/i.exec(disposition) ?? []
  const [, plain] = /filename="((?:[^"\\]|\\.)*)"/i.exec(disposition) ?? []
  let name = plain?.replace(/\\(.)/g, '$1')
  try {
    if (encoded !== undefined) name = decodeURIComponent(encoded)
  } catch {
    // The plain name is for clients that can't read the other form.
  }
  // A file may be written under this name, so it must not lead to another folder.
  return name?.replace(/^.*[/\\]/s, '') ?? null
}
