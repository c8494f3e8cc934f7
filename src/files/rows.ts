// Reads the rows of files, and whether their sessions still exist. A file is gone as soon as its session is gone, long
// before a sweeper comes.

import type { Redis } from 'ioredis'
import { asked } from '../redis/asked.ts'
import { GatewayError } from '../errors.ts'
import type { List, Page } from '../http/page.ts'
import { isId } from '../ids.ts'
import { readPage } from '../redis/listing.ts'
import type { Row } from '../redis/listing.ts'
import { keys } from '../redis/redis.ts'
import { parseRow, toFileObject } from './file-row.ts'
import type { FileObject, FileRow } from './file-row.ts'

/** What a file's id stands for. */
type FileLookup = FileRow | 'expired' | 'hidden' | 'gone'

/** Throws `file_not_found`, `file_expired`. */
export async function readRow(redis: Redis, ref: string, id: string): Promise<FileRow> {
  const [found = 'gone'] = await asked(findRows(redis, ref, [id]))
  if (found === 'expired') throw new GatewayError('file_expired')
  if (typeof found === 'string') throw new GatewayError('file_not_found')
  return found
}

export async function readRows(
  redis: Redis,
  ref: string,
  ids: readonly string[],
): Promise<readonly (FileRow | undefined)[]> {
  const rows = await asked(findRows(redis, ref, ids))
  return rows.map((row) => (typeof row === 'string' ? undefined : row))
}

/** Takes two flights, because only the row names the session. */
async function findRows(
  redis: Redis,
  ref: string,
  ids: readonly string[],
): Promise<readonly FileLookup[]> {
  const hashes = await Promise.all(ids.map((id) => readHash(redis, ref, id)))
  const rows = hashes.map((hash, at) => hash && parseRow(ids[at] ?? '', hash))
  const sessions = new Set(rows.flatMap((row) => row?.session ?? []))
  const there = new Set<string>()
  await Promise.all(
    [...sessions].map(async (session) => {
      if (await isThere(redis, ref, session)) there.add(session)
    }),
  )
  const nowS = Math.floor(Date.now() / 1000)
  return rows.map((row, at) => {
    if (!row) return isEmpty(hashes[at]) ? 'gone' : 'hidden'
    if (!there.has(row.session)) return 'hidden'
    if ('isExpired' in row) return 'expired'
    return row.expiresAt !== null && row.expiresAt <= nowS ? 'expired' : row
  })
}

function isEmpty(hash: Readonly<Record<string, string>> | undefined): boolean {
  return hash !== undefined && Object.keys(hash).length === 0
}

/** Undefined when the key has another type, and for a malformed id, for which Redis is not asked. */
async function readHash(redis: Redis, ref: string, id: string) {
  if (!isId('file', id)) return undefined
  try {
    return await redis.hgetall(keys.file(ref, id))
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('WRONGTYPE')) return undefined
    throw error
  }
}

async function isThere(redis: Redis, ref: string, session: string): Promise<boolean> {
  return (await redis.exists(keys.session(ref, session))) === 1
}

/** Throws `session_not_found`. */
export async function listRows(
  redis: Redis,
  ref: string,
  { page, session }: { readonly page: Page; readonly session: string | undefined },
): Promise<List<FileObject>> {
  if (session !== undefined) {
    const isOurs = isId('sess', session) && (await asked(isThere(redis, ref, session)))
    if (!isOurs) throw new GatewayError('session_not_found')
  }
  const rows = {
    key: session === undefined ? keys.files(ref) : keys.sessionFiles(ref, session),
    read: async (ids: readonly string[]) => (await findRows(redis, ref, ids)).map(toListed),
  }
  return await asked(readPage(redis, rows, page))
}

/** A file that has expired has its id in the zset until it is swept; the list skips it. */
function toListed(found: FileLookup): Row<FileObject> {
  if (found === 'gone') return 'gone'
  if (typeof found === 'string') return 'unreadable'
  return { value: toFileObject(found), bytes: 1024 + found.filename.length }
}
