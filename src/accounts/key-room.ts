// Room in the list of an account's keys. A customer makes keys without the operator, so the list is bounded; keys that
// have been dead for a day are forgotten when the room is needed. A forgotten key is refused as one that never was.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { hasCode } from '../errors.ts'
import { keys } from '../redis/redis.ts'
import type { ApiKey } from './key-rows.ts'

const daySeconds = 24 * 3600

export interface KeyRoom {
  readonly redis: Redis
  readonly ref: string
  listKeys(ref: string): Promise<readonly ApiKey[]>
}

/** Runs `make` again when it was refused for lack of room, if there was a dead key to forget. */
export async function withKeyRoom<T>(room: KeyRoom, make: () => Promise<T>): Promise<T> {
  try {
    return await make()
  } catch (error) {
    if (!hasCode(error, 'key_limit_reached') || !(await forgetOldest(room))) throw error
    return make()
  }
}

/** Forgets all that are dead for a day. Resolves with whether there was one. */
async function forgetOldest({ redis, ref, listKeys }: KeyRoom): Promise<boolean> {
  const before = Date.now() / 1000 - daySeconds
  const dead = (await listKeys(ref)).filter((key) => diedAt(key) < before).map(({ id }) => id)
  if (dead.length === 0) return false
  const hmacs = await asked(redis.hmget(keys.keyList(ref), ...dead))
  const rows = hmacs.flatMap((hmac) => (hmac === null ? [] : [keys.key(ref, hmac)]))
  await asked(redis.hdel(keys.keyList(ref), ...dead))
  if (rows.length > 0) await asked(redis.del(...rows))
  await asked(redis.hdel(keys.keyIds, ...dead))
  return true
}

function diedAt({ revoked_at, expires_at }: ApiKey): number {
  return Math.min(revoked_at ?? Infinity, expires_at ?? Infinity)
}
