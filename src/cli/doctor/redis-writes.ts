// Whether a Redis takes writes: one whose memory or disk is full answers and refuses them, and then all that costs
// something is 503. Its memory is also judged before it is full.

import { messageOf } from '../../errors.ts'
import type { Redis } from '../../redis/client.ts'
import type { Info } from '../../redis/server-kind.ts'
import { fail, ok, warn } from './examination.ts'
import type { CheckOutcome } from './examination.ts'

/**
 * A script without flags counts as one that writes, so Redis refuses it when it takes no writes (MISCONF, OOM,
 * NOREPLICAS). It changes nothing and names no key, so each node of a Cluster runs it itself.
 */
const mayWrite = '#!lua\nreturn 1'
/** A server that does not know such scripts, or a user that may run none, which the check of the rights tells. */
const notTried = /^(ERR|NOPERM)\b/

/** Redis that uses more of its `maxmemory` than this share is a warning. */
const nearlyFull = 0.9

export async function tryWrites(client: Pick<Redis, 'eval'>, info: Info): Promise<CheckOutcome> {
  return judgeWrites(info, await client.eval(mayWrite, 0).then(() => '', messageOf))
}

/** `error` is what the server answered to a write, or empty. */
export function judgeWrites(info: Info, error: string): CheckOutcome {
  if (info.get('role') === 'slave') return ok('a replica takes those of its primary')
  const used = Number(info.get('used_memory'))
  const most = Number(info.get('maxmemory') ?? 0)
  const memory = most > 0 ? `it uses ${inMiB(used)} of maxmemory ${inMiB(most)}` : 'no maxmemory'
  if (error !== '' && !notTried.test(error)) {
    const reason = error.replace(/[.\s]+$/, '')
    return fail(`it takes none (${memory}): ${reason}; what costs something is 503`)
  }
  if (most > 0 && used > nearlyFull * most) {
    return warn(`${memory}: when that is full, what costs something is 503; raise maxmemory`)
  }
  return ok(`${error === '' ? 'it takes them' : `not tried, ${error}`}; ${memory}`)
}

function inMiB(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`
}
