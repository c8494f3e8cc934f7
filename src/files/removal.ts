// Files go: the row at once, and with it the bytes that it counted; the object now if the store can, else by a sweeper. It is queued
// in the step that takes the row away, so no death and no hanging store leaves it behind.

import type { Redis } from 'ioredis'
import { asked } from '../redis/asked.ts'
import { GatewayError } from '../errors.ts'
import { isId } from '../ids.ts'
import { keys } from '../redis/redis.ts'
import type { ObjectStore } from '../store/store.ts'
import { announced, dueMember, persistently } from './due.ts'
import { objectName } from './file-row.ts'
import type { FileScripts } from './library.ts'
import { soon } from './upload/patience.ts'
import { readRow } from './rows.ts'

interface RemovalOptions {
  readonly redis: Redis
  readonly scripts: FileScripts
  readonly store: Pick<ObjectStore, 'remove'>
  /** How long after a failed deletion the sweeper tries. */
  readonly retryMs: number
}

export interface FilePlace {
  readonly ref: string
  readonly id: string
  readonly session: string
}

/** How long a caller waits for the store. */
const patienceMs = 2000

/** Throws `file_not_found`, `file_expired`. */
export async function removeFile(options: RemovalOptions, ref: string, id: string): Promise<void> {
  const { session } = await readRow(options.redis, ref, id)
  if (!(await drop(options, { ref, id, session }))) throw new GatewayError('file_not_found')
  // What it does not manage is queued, or found by a sweeper.
  await soon(removeObject(options, ref, id), patienceMs)
}

/** False where there was no row. */
function drop(
  { redis, scripts, retryMs }: Omit<RemovalOptions, 'store'>,
  place: FilePlace,
): Promise<boolean> {
  const { ref, id } = place
  return persistently(redis, async (isRepeated) => {
    const reply = await announced(redis, {
      ref,
      dueMs: Date.now() + retryMs,
      run: (minute) => scripts.run('drop', rowKeys(place), [id, minute, `${retryMs}`]),
    })
    return reply.word === 'ok' || isRepeated
  })
}

export function rowKeys({ ref, id, session }: FilePlace): readonly string[] {
  return [
    keys.files(ref),
    keys.sessionFiles(ref, session),
    keys.storage(ref),
    keys.due(ref),
    keys.file(ref, id),
  ]
}

async function removeObject(
  { redis, store }: RemovalOptions,
  ref: string,
  id: string,
): Promise<void> {
  await store.remove(objectName(ref, id))
  await redis.zrem(keys.due(ref), dueMember('object', id, 0))
}

const aFlight = 100
const storeAtOnce = 4

/** Of a session that has gone: nothing can be added any more. Answers the first of those whose objects are queued. */
export async function dropFilesOf(
  options: Omit<RemovalOptions, 'store'>,
  ref: string,
  session: string,
): Promise<string[]> {
  const { redis } = options
  const dropped: string[] = []
  for (;;) {
    const ids = await asked(redis.zrange(keys.sessionFiles(ref, session), '0', String(aFlight - 1)))
    if (ids.length === 0) break
    const were = await Promise.all(ids.map((id) => drop(options, { ref, id, session })))
    if (dropped.length === 0) dropped.push(...ids.filter((_id, at) => were[at]))
  }
  await asked(redis.zrem(keys.due(ref), dueMember('session', session)))
  return dropped
}

/** More objects than a flight are left to a sweeper. */
export async function removeFilesOf(
  options: RemovalOptions,
  ref: string,
  session: string,
): Promise<void> {
  if (!isId('sess', session)) return
  const dropped = await dropFilesOf(options, ref, session)
  const removeNext = async () => {
    for (let id = dropped.pop(); id !== undefined; id = dropped.pop()) {
      await removeObject(options, ref, id)
    }
  }
  await soon(Promise.all(Array.from({ length: storeAtOnce }, removeNext)), patienceMs)
}
