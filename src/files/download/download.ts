// Decides what GET or HEAD of a file answers, before the store is asked: docs/files.md, with RFC 9110's ranges and
// conditions. No data of the row or the request can make a browser run the file in the gateway's origin.

import { encodeExtended } from 'content-disposition'
import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../../errors.ts'
import { invalid } from '../../http/refusals.ts'
import type { ByteRange } from '../../store/store.ts'
import { isRangeMeant, judgeConditions } from './conditions.ts'
import { textType, unknownType } from '../upload/content-type.ts'
import type { FileRow } from '../file-row.ts'

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

type Disposition = 'attachment' | 'inline'

/**
 * Content-Disposition (RFC 6266) for a name that may hold any character: visible ASCII, in which the name can neither end
 * its parameter nor begin another one. Always writes both forms: the plain one is for clients that know no other. Not by
 * the package's `create`, which leaves quotes and `%41` in the plain form, and browsers read those differently.
 */
export function contentDisposition(disposition: Disposition, filename: string): string {
  // A lone surrogate cannot be encoded.
  const name = filename.toWellFormed()
  return `${disposition}; filename="${plain(name)}"; filename*=${encodeExtended(name)}`
}

/**
 * Letters lose their accents; other characters beyond ASCII, and those at which careless parsers stop, become `_`. Not
 * by NFKD, which makes slashes: it turns `℀` into `a/c`.
 */
function plain(name: string): string {
  return name
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .normalize('NFC')
    .replace(/[^ -~]|["%;/\\]/gu, '_')
}

/**
 * Parses the Range header (RFC 9110 §14) for a file of known length. Not by range-parser, which refuses a suffix longer
 * than the file (it means the whole file) and calls `5-2` unsatisfiable (it is no range at all).
 * `whole` when the header must be ignored: another unit, several ranges, no valid range. `none` when the file has no
 * byte of the range.
 */
export function parseRange(header: string, bytes: number): ByteRange | 'whole' | 'none' {
  const set = /^bytes=(.*)$/i.exec(header)?.[1]
  if (set === undefined) return 'whole'
  // Empty elements of a list are to be passed over (§5.6.1).
  const specs = set.split(',').map((spec) => spec.trim())
  const [spec, ...others] = specs.filter((one) => one !== '')
  if (spec === undefined || others.length > 0) return 'whole'
  return parseSpec(spec, bytes)
}

function parseSpec(spec: string, bytes: number): ByteRange | 'whole' | 'none' {
  const [, first, last] = /^(\d*)-(\d*)$/.exec(spec) ?? []
  if (first === undefined || last === undefined || spec === '-') return 'whole'
  if (first === '') return suffix(Number(last), bytes)
  const start = Number(first)
  if (last !== '' && isLess(last, first)) return 'whole'
  if (start >= bytes) return 'none'
  return { start, end: last === '' ? bytes - 1 : Math.min(Number(last), bytes - 1) }
}

/** A suffix of an empty file is satisfiable, but no Content-Range can express it: the whole file is sent. */
function suffix(length: number, bytes: number): ByteRange | 'whole' | 'none' {
  if (length === 0) return 'none'
  if (bytes === 0) return 'whole'
  return { start: Math.max(0, bytes - length), end: bytes - 1 }
}

/** The grammar allows any number of digits; as doubles, large numbers could be equal. */
function isLess(a: string, b: string): boolean {
  return BigInt(a) < BigInt(b)
}
