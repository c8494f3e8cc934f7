// Removes files: the row at once, with the bytes that it counted; then the object. The script that removes the row also
// queues the object, so neither a killed gateway nor a hanging store leaves the object behind.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/keys.ts'
import type { ObjectStore } from '../store/store.ts'
import { announced, dueMember, persistently } from './due.ts'
import { objectName } from './file-row.ts'
import type { FileScripts } from './library.ts'

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

/** Removes the row and queues the object. False when there was no row. */
export function drop(
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

export async function removeObject(
  { redis, store }: Pick<RemovalOptions, 'redis' | 'store'>,
  ref: string,
  id: string,
): Promise<void> {
  await store.remove(objectName(ref, id))
  await redis.zrem(keys.due(ref), dueMember('object', id, 0))
}

const aFlight = 100

/**
 * Removes the rows of all files of a session that is gone, and so gets no new files. Returns the ids of the first
 * batch, whose objects are queued.
 */
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

const scannedAtOnce = 1000

/**
 * Removes the `session` members from `due`, for an account without files. A gateway that died after it had deleted a
 * session, and before its files, has left such members, due up to a day later.
 */
export async function forgetSessions(redis: Redis, ref: string): Promise<void> {
  const due = keys.due(ref)
  let cursor = '0'
  do {
    const match = dueMember('session', '*')
    const [next, found] = await redis.zscan(due, cursor, 'MATCH', match, 'COUNT', scannedAtOnce)
    const members = found.filter((_member, at) => at % 2 === 0)
    if (members.length > 0) await redis.zrem(due, ...members)
    cursor = next
  } while (cursor !== '0')
}
