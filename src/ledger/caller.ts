// Both sides of caller.lua: what it is asked for the caller of a request that makes no hold, and its reply as who calls, or
// as a refusal.

import { GatewayError } from '../errors.ts'
import type { CountedRequest } from '../errors.ts'
import { accountKeys, keys } from '../redis/keys.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import type { IdentifyRequest } from './admit.ts'
import { callerOf } from './admit.ts'
import type { RedisClock } from './clock.ts'
import { tooManyRounds } from './library.ts'
import { reap } from './reaping.ts'
import type { ReapingOptions } from './reaping.ts'

export type CountedIdentity = ReturnType<typeof toIdentity>

const windowMs = 60_000

/** Throws the refusal; then the request is not counted. */
export async function identifyCounted(
  { ref, hmac, scope }: IdentifyRequest,
  options: ReapingOptions & { readonly clock: RedisClock },
): Promise<CountedIdentity> {
  const { scripts, clock } = options
  const names = [...accountKeys(ref), keys.key(ref, hmac), keys.requests(ref)]
  const ask = (reaped: string) =>
    scripts.run('caller', names, [scope, clock.isSet ? '0' : '1', reaped])
  let reply = await ask('0')
  if (reply.word === 'reap') {
    await reap(options, ref)
    reply = await ask('1')
  }
  if (reply.word === 'reap') throw tooManyRounds()
  if (reply.word !== 'ok') throw new GatewayError(reply.word, { caller: callerOf(reply, 2) })
  return toIdentity(reply, clock)
}

function toIdentity(reply: Reply, clock: RedisClock) {
  const limit = numberAt(reply, 7)
  const count = numberAt(reply, 8)
  const leftMs = numberAt(reply, 9) * 1000 - clock.now()
  const resetMs = Math.max(0, Math.min(windowMs, leftMs))
  return {
    accountId: textAt(reply, 2),
    plan: textAt(reply, 3),
    keyId: textAt(reply, 4),
    /** The models that the key may use; `*` allows all. */
    models: textAt(reply, 5).split(' '),
    owed: numberAt(reply, 6),
    /** The key's own limit. */
    tokensPerMinute: limit < 0 ? undefined : limit,
    /** Undefined when Redis could not count it, because its memory is full. */
    requests: count < 0 ? undefined : ({ count, resetMs } satisfies CountedRequest),
  }
}
