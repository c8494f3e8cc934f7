// Room in the list of an account's keys. A customer makes keys without the operator, so the list is bounded; keys that
// have been dead for a day are forgotten when the room is needed. A forgotten key is refused as one that never was.

import { hasCode } from '../errors.ts'
import type { Accounts } from './accounts.ts'
import type { ApiKey } from './key-rows.ts'

const daySeconds = 24 * 3600

type KeyLists = Pick<Accounts, 'listKeys' | 'forgetKeys'>

/** Runs `make` again when it was refused for lack of room, if there was a dead key to forget. */
export async function withKeyRoom<T>(
  accounts: KeyLists,
  ref: string,
  make: () => Promise<T>,
): Promise<T> {
  try {
    return await make()
  } catch (error) {
    if (!hasCode(error, 'key_limit_reached') || !(await forgetDead(accounts, ref))) throw error
    return make()
  }
}

/** Forgets all that are dead for a day. Resolves with whether there was one. */
async function forgetDead(accounts: KeyLists, ref: string): Promise<boolean> {
  const before = Date.now() / 1000 - daySeconds
  const dead = (await accounts.listKeys(ref)).filter((key) => diedAt(key) < before)
  if (dead.length === 0) return false
  await accounts.forgetKeys(
    ref,
    dead.map(({ id }) => id),
  )
  return true
}

function diedAt({ revoked_at, expires_at }: ApiKey): number {
  return Math.min(revoked_at ?? Infinity, expires_at ?? Infinity)
}
