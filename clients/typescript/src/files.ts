// A session's files: uploads and downloads as streams, with their progress.

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
  /** The type of the bytes, whatever the sender said. */
  readonly content_type: string
  /** Hex. */
  readonly sha256: string
  readonly [name: string]: unknown
}

export interface UploadParams extends CallOptions {
  readonly sessionId: string
  /** By default the name of the File. */
  readonly filename?: string | undefined
  readonly contentType?: string | undefined
  /** The size in bytes of a stream, if it is known: sent as Content-Length. */
  readonly size?: number | undefined
  readonly purpose?: string | undefined
  /** Seconds. */
  readonly expiresAfter?: number | undefined
  /** Hex. The gateway refuses a file that arrives with another hash. */
  readonly sha256?: string | undefined
  readonly onProgress?: OnProgress | undefined
}

export interface ContentOptions extends CallOptions {
  /** The first byte to read: `position` of the earlier download. */
  readonly start?: number | undefined
  /** `etag` of the earlier download: a file that has changed since is refused. */
  readonly etag?: string | undefined
  /** Counts from the file's first byte. */
  readonly onProgress?: OnProgress | undefined
}

export interface FileListParams extends ListParams {
  /** By default all files of the account. */
  readonly session_id?: string | undefined
}

export class Files {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /**
   * Sends a file in pieces; memory holds one piece. A stream is sent once; anything else is sent again when that may
   * help. If reading the file fails, it rejects with that error.
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

  /** The file's bytes, read as they come. See {@link Download}. */
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

  /** The file no longer counts against the storage quota. */
  async delete(id: string, options?: CallOptions): Promise<void> {
    await this.#transport.done({ method: 'DELETE', path: pathTo('api', 'files', id) }, options)
  }

  /** Newest first by default. */
  list(params: FileListParams = {}, options?: CallOptions): List<FileObject> {
    return listAt(this.#transport, pathTo('api', 'files'), { query: params, options })
  }
}

/** Of a compressed answer, a range would mean other bytes. */
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
