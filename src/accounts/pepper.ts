// Whether a gateway has the pepper under which the keys of its Redis are made. With another one, every key would be
// invalid, and nothing else would tell why. So Redis keeps a fingerprint of the pepper, from the first gateway that comes;
// only an operator removes it. What it gives away: docs/decisions/0057-a-wrong-pepper-is-refused.md.

import { createHmac } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { messageOf } from '../errors.ts'
import type { Redis } from '../redis/client.ts'
import { keys } from '../redis/keys.ts'
import { hopeless } from '../redis/outage.ts'

interface ClaimOptions {
  /** The id of a key that was valid under it. One of the playground, which no list has, proves nothing: any gateway makes it. */
  readonly provenBy?: string | undefined
  /** Called when that key proves it, even if it can't be noted now. */
  readonly onProven?: () => void
  /** Nothing is noted. */
  readonly isLook?: boolean
  /** How long a Redis is waited for that was lost a moment ago. */
  readonly patienceMs?: number
}

const againMs = 50

/**
 * Notes the pepper's fingerprint where none is, and resolves with whether it is there now. Rejects with OtherPepper if there is
 * that of another one, even while there is no key: the gateway that has noted it may run, and would make keys of its own
 * pepper. Where there are keys, and none is noted, as after an upgrade, only a pepper is noted that one of them has proven.
 */
export async function claimPepper(
  redis: Redis,
  pepper: string,
  options: ClaimOptions = {},
): Promise<boolean> {
  const until = performance.now() + (options.patienceMs ?? 0)
  for (;;) {
    try {
      return await claim(redis, pepper, options)
    } catch (cause) {
      if (cause instanceof OtherPepper) throw cause
      const reason = messageOf(cause)
      if (hopeless.test(reason) || performance.now() >= until) {
        const message = `Redis does not tell whether the pepper is the right one: ${reason}`
        throw new Error(message, { cause })
      }
      await wait(againMs)
    }
  }
}

async function claim(redis: Redis, pepper: string, options: ClaimOptions): Promise<boolean> {
  const ours = fingerprintOf(pepper)
  const isNew = (await redis.get(keys.pepper)) === null
  // When Redis' memory is full, it cannot be noted. A gateway starts all the same.
  if (isNew && (await mayNote(redis, options))) {
    await redis.set(keys.pepper, ours, 'NX').catch(() => null)
  }
  const theirs = await redis.get(keys.pepper)
  if (theirs !== null && theirs !== ours) throw new OtherPepper()
  return theirs === ours
}

async function mayNote(redis: Redis, options: ClaimOptions): Promise<boolean> {
  const { isLook, provenBy, onProven } = options
  if (isLook) return false
  if (provenBy !== undefined && (await redis.hexists(keys.keyIds, provenBy))) {
    onProven?.()
    return true
  }
  return !(await redis.exists(keys.keyIds))
}

/** Redis has noted another one. */
export class OtherPepper extends Error {
  constructor() {
    super(
      'plugins.auth.pepper is not the one under which the keys in this Redis are made, so no key would be valid: put the old one back. If the one that Redis knows is wrong, or is lost with all keys: docs/runbook.md#another-pepper',
    )
  }
}

function fingerprintOf(pepper: string): string {
  return createHmac('sha256', pepper).update('tollgate pepper').digest('hex').slice(0, 16)
}
