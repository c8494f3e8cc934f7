// One stored file as Redis has it and as the API shows it (docs/api.md#file). A row is checked when it is read: a row
// that no gateway can have written counts as missing.

import { isId } from '../ids.ts'

export interface FileRow {
  readonly id: string
  readonly bytes: number
  /** Unix seconds, as `expiresAt`. */
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly filename: string
  readonly purpose: string
  readonly session: string
  /** The type that was sniffed from the content. */
  readonly contentType: string
  /** Hex. */
  readonly sha256: string
}

export type FileObject = ReturnType<typeof toFileObject>

/** As the API shows it. */
export function toFileObject(row: FileRow) {
  return {
    id: row.id,
    object: 'file' as const,
    bytes: row.bytes,
    created_at: row.createdAt,
    expires_at: row.expiresAt,
    filename: row.filename,
    purpose: row.purpose,
    status: 'processed' as const,
    session_id: row.session,
    content_type: row.contentType,
    sha256: row.sha256,
  }
}

/** Name of the object in the store that has the file's content. */
export function objectName(ref: string, id: string): string {
  return `files/${ref}/${id}`
}

/** Fields and values in turn, as HSET takes them. */
export function rowFields(row: FileRow): readonly string[] {
  return Object.entries({
    id: row.id,
    bytes: String(row.bytes),
    created_at: String(row.createdAt),
    expires_at: String(row.expiresAt ?? ''),
    filename: row.filename,
    purpose: row.purpose,
    session: row.session,
    content_type: row.contentType,
    sha256: row.sha256,
  }).flat()
}

/** A file that has expired and was swept: Redis still knows its session, so that clients get `file_expired`. */
export interface Tombstone {
  readonly id: string
  readonly session: string
  readonly isExpired: true
}

/** Reads a file's hash; returns undefined when the hash is empty or broken. */
export function parseRow(
  id: string,
  hash: Readonly<Record<string, string>>,
): FileRow | Tombstone | undefined {
  const { filename, purpose, session = '', content_type: contentType = '', sha256 = '' } = hash
  if (hash.id !== id || !isId('sess', session)) return undefined
  const expiresAt = hash.expires_at === '' ? null : count(hash.expires_at)
  if (hash.bytes === undefined && expiresAt !== null) return { id, session, isExpired: true }
  const bytes = count(hash.bytes)
  const createdAt = count(hash.created_at)
  if (bytes === undefined || createdAt === undefined || expiresAt === undefined) return undefined
  if (filename === undefined || purpose === undefined) return undefined
  if (!mediaType.test(contentType) || !sha256Hex.test(sha256)) return undefined
  return { id, bytes, createdAt, expiresAt, filename, purpose, session, contentType, sha256 }
}

const mediaType = /^[\w.+-]+\/[\w.+-]+(;[ -~]*)?$/
const sha256Hex = /^[0-9a-f]{64}$/

function count(text: string | undefined): number | undefined {
  const number = /^\d{1,16}$/.test(text ?? '') ? Number(text) : Number.NaN
  return Number.isSafeInteger(number) ? number : undefined
}
