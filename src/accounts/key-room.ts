// Room in the list of an account's keys. A customer makes keys without the operator, so the list is bounded; keys that
// have been dead for a day are forgotten when the room is needed. A forgotten key is refused as one that never was.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { hasCode } from '../errors.ts'
import { keys } from '../redis/redis.ts'
import { createScripts } from '../redis/scripts.ts'
import { keyScripts } from './account-keys.ts'
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
  const all = await listKeys(ref)
  const dead = all.filter((key) => diedAt(key) < before).map(({ id }) => id)
  if (dead.length === 0) return false
  const hmacs = await asked(redis.hgetall(keys.keyList(ref)))
  const rows = dead.flatMap((id) => (hmacs[id] ? [keys.key(ref, hmacs[id])] : []))
  // First: after a crash, the keys are found dead once more.
  await forgetFields(redis, ref, { dead, hmacs })
  await asked(redis.hdel(keys.keyList(ref), ...dead))
  if (rows.length > 0) await asked(redis.del(...rows))
  await asked(redis.hdel(keys.keyIds, ...dead))
  return true
}

interface Forgotten {
  readonly dead: readonly string[]
  /** Of all keys, by their ids. */
  readonly hmacs: Readonly<Record<string, string>>
}

/** A key that replaced another one counts under the first one's id: what that has stays until the last of them goes. */
async function forgetFields(redis: Redis, ref: string, { dead, hmacs }: Forgotten): Promise<void> {
  const going = new Set(dead)
  const [counters, needed] = [new Set<string>(), new Set<string>()]
  const find = async ([id, hmac]: readonly [string, string]) => {
    const first = (await redis.hget(keys.key(ref, hmac), 'budget_of')) ?? id
    if (going.has(id)) counters.add(id).add(first)
    else needed.add(id).add(first)
  }
  await asked(Promise.all(Object.entries(hmacs).map(find)))
  const unused = [...counters].filter((id) => !needed.has(id))
  const scripts = createScripts({ link: { client: redis }, library: keyScripts })
  await scripts.run('forget', [keys.account(ref)], [dead.join(' '), unused.join(' ')])
}

function diedAt({ revoked_at, expires_at }: ApiKey): number {
  return Math.min(revoked_at ?? Infinity, expires_at ?? Infinity)
}
