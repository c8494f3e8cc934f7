// Decides what GET or HEAD of a file answers, before the store is asked: docs/files.md, with RFC 9110's ranges and
// conditions. No data of the row or the request can make a browser run the file in the gateway's origin.

import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../../errors.ts'
import { invalid } from '../../http/refusals.ts'
import type { ByteRange } from '../../store/store.ts'
import { isRangeMeant, judgeConditions } from './conditions.ts'
import { textType, unknownType } from '../upload/content-type.ts'
import { contentDisposition } from './disposition.ts'
import type { Disposition } from './disposition.ts'
import type { FileRow } from '../file-row.ts'
import { parseRange } from './range.ts'

/** What a download needs of a file's row. */
export type Downloadable = Pick<
  FileRow,
  'bytes' | 'createdAt' | 'filename' | 'contentType' | 'sha256'
>

export interface DownloadRequest {
  readonly method: string
  readonly headers: IncomingHttpHeaders
  readonly query: URLSearchParams
}

export interface Download {
  readonly status: 200 | 206 | 304
  readonly headers: Readonly<Record<string, string>>
  /** The bytes to read from the store; without a range, all of them. */
  readonly range?: ByteRange
  /** When false (HEAD, 304, an empty file), the store need not be asked. */
  readonly hasBody: boolean
}

/** Throws precondition_failed, range_not_satisfiable, invalid_parameter. */
export function planDownload(file: Downloadable, request: DownloadRequest): Download {
  const { method, headers, query } = request
  const disposition = dispositionOf(file.contentType, query)
  const validators = { etag: `"${file.sha256}"`, modifiedAt: file.createdAt }
  const verdict = judgeConditions(validators, headers)
  if (verdict === 'precondition_failed') throw new GatewayError(verdict)
  const fresh = freshness(validators)
  if (verdict === 'not_modified') return { status: 304, headers: fresh, hasBody: false }

  const described = { ...fresh, ...description(file, disposition) }
  // For GET alone: ranges of a HEAD are to be ignored (RFC 9110 §14.2).
  const header = method === 'GET' && isRangeMeant(validators, headers) ? headers.range : undefined
  const range = header === undefined ? 'whole' : parseRange(header, file.bytes)
  if (range === 'none') throw notSatisfiable(file.bytes)
  const hasBody = method !== 'HEAD' && file.bytes > 0
  if (range === 'whole') {
    const length = String(file.bytes)
    return { status: 200, headers: { ...described, 'Content-Length': length }, hasBody }
  }
  const { start, end } = range
  const part = {
    'Content-Length': String(end - start + 1),
    'Content-Range': `bytes ${start}-${end}/${file.bytes}`,
  }
  return { status: 206, headers: { ...described, ...part }, range, hasBody }
}

/** Types that a browser shows without running anything of them. Shown inline only when the URL asks for it. */
const shownInline: ReadonlySet<string> = new Set([
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/avif',
  'audio/mpeg',
  'video/mp4',
  textType,
])

/** For other types `inline` is no error: a page that links to files need not know which ones can be shown. */
function dispositionOf(contentType: string, query: URLSearchParams): Disposition {
  const wish = query.get('disposition') ?? 'attachment'
  if (wish === 'attachment') return wish
  if (wish === 'inline') return shownInline.has(contentType) ? wish : 'attachment'
  throw invalid('disposition', 'must be attachment or inline')
}

/** The headers that a 304 has (RFC 9110 §15.4.5). */
function freshness({ etag, modifiedAt }: { readonly etag: string; readonly modifiedAt: number }) {
  return {
    ETag: etag,
    'Cache-Control': 'private, no-cache',
    'Last-Modified': new Date(modifiedAt * 1000).toUTCString(),
  }
}

function description(file: Downloadable, disposition: Disposition) {
  // Repr-Digest is of the whole file, even when a part is sent; Content-Digest would be of the part (RFC 9530 §3).
  const digest = Buffer.from(file.sha256, 'hex').toString('base64')
  return {
    'Content-Type': servedType(file.contentType),
    'Content-Disposition': contentDisposition(disposition, file.filename),
    'Accept-Ranges': 'bytes',
    'Repr-Digest': `sha-256=:${digest}:`,
    'X-Content-Type-Options': 'nosniff',
    'Content-Security-Policy': "sandbox; default-src 'none'",
    'Cross-Origin-Resource-Policy': 'same-site',
  }
}

const soundType = /^[a-z]+\/[a-z\d][a-z\d.+-]*(?:; charset=utf-8)?$/

function servedType(contentType: string): string {
  return soundType.test(contentType) ? contentType : unknownType
}

function notSatisfiable(bytes: number): GatewayError {
  return new GatewayError('range_not_satisfiable', {
    message: `The range lies outside the file, which has ${bytes} bytes.`,
    headers: { 'Content-Range': `bytes */${bytes}` },
  })
}
