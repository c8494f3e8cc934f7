// Room in the list of an account's keys. A customer makes keys without the operator, so the list is bounded; keys that
// have been dead for a day are forgotten when the room is needed. A forgotten key is refused as one that never was.

import { everies, keyWindow } from '../budget.ts'
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
  const dead = new Set(
    (await listKeys(ref)).filter((key) => diedAt(key) < before).map(({ id }) => id),
  )
  if (dead.size === 0) return false
  const all = Object.entries(await asked(redis.hgetall(keys.keyList(ref))))
  const gone = all.filter(([id]) => dead.has(id))
  const rows = gone.map(([, hmac]) => keys.key(ref, hmac))
  await asked(redis.hdel(keys.account(ref), ...(await fieldsOf(redis, ref, { all, dead }))))
  await asked(redis.hdel(keys.keyList(ref), ...dead))
  if (rows.length > 0) await asked(redis.del(...rows))
  await asked(redis.hdel(keys.keyIds, ...dead))
  return true
}

interface Forgotten {
  /** Ids and HMACs. */
  readonly all: readonly (readonly [id: string, hmac: string])[]
  readonly dead: ReadonlySet<string>
}

/** What the account's row has for these keys: how many requests run, and windows of budgets in which no other key counts. */
async function fieldsOf(
  redis: Redis,
  ref: string,
  { all, dead }: Forgotten,
): Promise<readonly string[]> {
  const counters = new Set<string>()
  const counting = new Set<string>()
  for (const [id, hmac] of all) {
    const counter = (await asked(redis.hget(keys.key(ref, hmac), 'budget_of'))) ?? id
    ;(dead.has(id) ? counters : counting).add(counter)
  }
  const windows = [...counters]
    .filter((id) => !counting.has(id))
    .flatMap((id) => everies.map((every) => keyWindow(id, { every })))
  return [...[...dead].map((id) => `open:${id}`), ...windows]
}

function diedAt({ revoked_at, expires_at }: ApiKey): number {
  return Math.min(revoked_at ?? Infinity, expires_at ?? Infinity)
}
