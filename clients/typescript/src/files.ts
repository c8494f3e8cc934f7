// A session's files: up and down as streams, with their progress.

import { Download } from './download.ts'
import { TollgateError } from './errors.ts'
import { listAt } from './list.ts'
import type { List, ListParams } from './list.ts'
import { pathTo } from './transport.ts'
import type { CallOptions, Transport } from './transport.ts'
import { formOf } from './upload.ts'
import type { OnProgress, Uploadable } from './upload.ts'

export interface FileObject {
  readonly id: string
  readonly object: 'file'
  readonly bytes: number
  readonly created_at: number
  /** Unix seconds; null: never. */
  readonly expires_at: number | null
  /** Cleaned by the gateway. */
  readonly filename: string
  readonly purpose: string
  readonly status: string
  readonly session_id: string
  /** What the bytes are, whatever was said of them. */
  readonly content_type: string
  /** Hex. */
  readonly sha256: string
  readonly [name: string]: unknown
}

export interface UploadParams extends CallOptions {
  readonly sessionId: string
  /** A File's own where not given. */
  readonly filename?: string | undefined
  readonly contentType?: string | undefined
  /** In bytes, of a stream whose size is known: sent as Content-Length. */
  readonly size?: number | undefined
  readonly purpose?: string | undefined
  /** Seconds. */
  readonly expiresAfter?: number | undefined
  /** Hex. A file that arrives otherwise is refused. */
  readonly sha256?: string | undefined
  readonly onProgress?: OnProgress | undefined
}

export interface ContentOptions extends CallOptions {
  /** First byte that is wanted: `position` of the download before. */
  readonly start?: number | undefined
  /** `etag` of the download before: what is a different file by now is refused. */
  readonly etag?: string | undefined
  /** Counts from the file's first byte. */
  readonly onProgress?: OnProgress | undefined
}

export interface FileListParams extends ListParams {
  /** All of the account's where not given. */
  readonly session_id?: string | undefined
}

export class Files {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * Sends a file in pieces; what is in memory is a piece. A stream is sent once; anything else is sent again where
   * that may help. Rejects with what reading the file failed with.
   */
  async upload(file: Uploadable, params: UploadParams): Promise<FileObject> {
    const { sessionId, contentType, size, onProgress, ...options } = params
    const filename = params.filename ?? (file as Partial<File>).name
    if (!filename) throw new TollgateError('A file needs a filename.')
    const fields = [
      ['session_id', sessionId],
      ['purpose', params.purpose],
      ['expires_after', params.expiresAfter?.toString()],
      ['sha256', params.sha256],
    ].filter((field): field is [string, string] => field[1] !== undefined)
    const form = await formOf(file, { filename, contentType, size, fields, onProgress })
    try {
      const path = pathTo('api', 'files', 'upload')
      return await this.#transport.json({ method: 'POST', path, form }, options)
    } catch (error) {
      throw form.failure ?? error
    }
  }

  /** The bytes, to be read as they come. See {@link Download}. */
  async content(id: string, options: ContentOptions = {}): Promise<Download> {
    const { start = 0, etag, onProgress, ...rest } = options
    const open = (range: { start: number; etag?: string | undefined }, more?: CallOptions) =>
      this.#transport.open(
        {
          method: 'GET',
          path: pathTo('api', 'files', id),
          headers: rangeHeaders(range),
          followsRedirects: true,
        },
        { ...rest, ...more },
      )
    const attempt = await open({ start, etag })
    return new Download(attempt, {
      start,
      etag: start > 0 ? etag : undefined,
      onProgress,
      signal: rest.signal,
      reopen: (from, tag, signal) => open({ start: from, etag: tag }, { signal, maxRetries: 0 }),
    })
  }

  async retrieve(id: string, options?: CallOptions): Promise<FileObject> {
    const path = pathTo('api', 'files', id, 'metadata')
    return await this.#transport.json({ method: 'GET', path }, options)
  }

  /** Its bytes count no longer. */
  async delete(id: string, options?: CallOptions): Promise<void> {
    await this.#transport.done({ method: 'DELETE', path: pathTo('api', 'files', id) }, options)
  }

  /** Newest first, unless told otherwise. */
  list(params: FileListParams = {}, options?: CallOptions): List<FileObject> {
    return listAt(this.#transport, pathTo('api', 'files'), { query: params, options })
  }
}

/** Compressed, a range would be one of other bytes. */
function rangeHeaders({
  start,
  etag,
}: {
  start: number
  etag?: string | undefined
}): Record<string, string> {
  const headers: Record<string, string> = { 'accept-encoding': 'identity' }
  if (start > 0) headers.range = `bytes=${start}-`
  if (start > 0 && etag) headers['if-range'] = etag
  return headers
}
