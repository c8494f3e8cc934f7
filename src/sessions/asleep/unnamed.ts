// Removes the objects that no session names any more: it woke, was deleted or has expired, or a gateway died before the
// session named one. The account's record of an object is older than the object, and says when to look: once a day.

import { asked } from '../../redis/asked.ts'
import type { Redis } from '../../redis/client.ts'
import { keys } from '../../redis/keys.ts'
import type { ObjectStore } from '../../store/store.ts'
import type { SessionScripts } from '../library.ts'
import type { Attempts } from './attempts.ts'
import { objectKeptMs, pathOf, sessionIn } from './object.ts'

export interface UnnamedOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
  readonly store: Pick<ObjectStore, 'abandon'>
  readonly attempts: Attempts
  /** Ends the work early. */
  readonly signal: AbortSignal
}

const accountsAtOnce = 100
const objectsAtOnce = 100

/** Resolves with how many it has removed. */
export async function removeUnnamed(options: UnnamedOptions): Promise<number> {
  const { redis, attempts, signal } = options
  let removed = 0
  let cursor = '0'
  do {
    const [next, refs] = await asked(redis.sscan(keys.sleepers, cursor, 'COUNT', accountsAtOnce))
    const [seconds] = await asked(redis.time())
    const untilMs = Number(seconds) * 1000
    const found = await asked(Promise.all(refs.map((ref) => dueObjects(redis, ref, untilMs))))
    for (const [at, ref] of refs.entries()) {
      for (let due = found[at] ?? []; due.length > 0 && !signal.aborted;) {
        const { failures } = attempts
        for (const object of due) {
          if (signal.aborted) return removed
          const isRemoved = await attempts.make(object, () => look(options, ref, object))
          if (isRemoved) removed++
        }
        // What could not be removed is still due.
        const isLast = due.length < objectsAtOnce || attempts.failures > failures
        due = isLast ? [] : await asked(dueObjects(redis, ref, untilMs))
      }
    }
    cursor = next
  } while (cursor !== '0' && !signal.aborted)
  return removed
}

/** True when the object was removed. */
async function look(
  { redis, scripts, store }: UnnamedOptions,
  ref: string,
  object: string,
): Promise<boolean> {
  const names = [keys.session(ref, sessionIn(object)), keys.sessionObjects(ref)]
  const { word } = await scripts.run('named', names, [object, `${objectKeptMs}`])
  if (word !== 'unnamed') return false
  // None will name it any more: sleep.lua refuses an object whose time comes soon.
  await store.abandon(pathOf(ref, object))
  await asked(redis.zrem(keys.sessionObjects(ref), object))
  return true
}

/** Whose time has come. */
function dueObjects(redis: Redis, ref: string, untilMs: number): Promise<string[]> {
  return redis.zrangebyscore(keys.sessionObjects(ref), '-inf', untilMs, 'LIMIT', 0, objectsAtOnce)
}
