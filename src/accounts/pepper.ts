// Whether a gateway has the pepper under which the keys of its Redis were made. With another one, every key would be
// invalid, and nothing else would tell why. So Redis keeps a fingerprint of the pepper, from the first gateway that comes.
// A fingerprint lets who reads Redis try peppers. That gives nobody a key: keys have 178 random bits of their own.

import { createHmac } from 'node:crypto'
import type { Redis } from '../redis/client.ts'
import { keys } from '../redis/keys.ts'

/** Notes the pepper's fingerprint where none is, or where there is no key yet. Rejects if there are keys of another pepper. */
export async function claimPepper(redis: Redis, pepper: string): Promise<void> {
  const ours = fingerprintOf(pepper)
  // When Redis' memory is full, it cannot be noted. A gateway starts all the same.
  const note = () => redis.set(keys.pepper, ours, 'NX', 'GET').catch(() => null)
  const theirs = (await redis.get(keys.pepper)) ?? (await note())
  if (theirs === null || theirs === ours) return
  if ((await redis.hlen(keys.keyIds)) > 0) throw new Error(otherPepper)
  await redis.set(keys.pepper, ours)
}

/** The same without a change in Redis: what is wrong with this pepper, or undefined. */
export async function pepperFault(redis: Redis, pepper: string): Promise<string | undefined> {
  const theirs = await redis.get(keys.pepper)
  if (theirs === null || theirs === fingerprintOf(pepper)) return undefined
  return (await redis.hlen(keys.keyIds)) > 0 ? otherPepper : undefined
}

const otherPepper = `plugins.auth.pepper is not the one under which the keys in this Redis were made, so no key would be valid: put the old one back. To give up all keys, run DEL ${keys.pepper} in Redis`

function fingerprintOf(pepper: string): string {
  return createHmac('sha256', pepper).update('tollgate pepper').digest('hex').slice(0, 16)
}
