// Idempotency-Key on routes that create something: for a day, a repeated request gets the answer of the first try, and
// never creates again. The claim is taken in the tick in which the API key is looked up; a refusal by auth goes before
// any replay. The creating route itself stores what a repetition needs (x.claim); otherwise the claim is released, as
// after a refusal.

import { setTimeout as pause } from 'node:timers/promises'
import { claimLeaseMs, createClaims } from '../redis/claims.ts'
import type { ClaimState, ClaimAttempt, Try } from '../redis/claims.ts'
import { noKeys } from '../config/schema.ts'
import { GatewayError } from '../errors.ts'
import type { Answer, Exchange, Hooks } from '../exchange.ts'
import { ClientLeft } from '../http/body.ts'
import { sha256InTurns } from '../http/digest.ts'
import { idempotencyKey } from '../http/headers.ts'
import type { Plugin } from '../plugin.ts'

export const idempotency: Plugin = {
  name: 'idempotency',
  schema: noKeys.describe(
    'A request that is repeated with the same `Idempotency-Key` is done once.',
  ),
  setup({ redis, metrics }) {
    const onReply = (script: string, seconds: number) =>
      metrics.redisSeconds.observe({ script }, seconds)
    const attemptOf = createClaims({ link: redis, onReply })
    return {
      begin(x) {
        const isMeant = x.route.creates && x.headers['idempotency-key'] !== undefined
        return isMeant ? hooksOf(x, attemptOf) : undefined
      },
    }
  },
}

/** A body up to this size is hashed at once, in 0.3 ms. */
const largeBytes = 256 * 1024

function hooksOf(x: Exchange, attemptOf: (one: Try) => ClaimAttempt): Hooks {
  let key = ''
  return {
    check() {
      key = idempotencyKey(x.headers) ?? ''
    },
    // Without a caller (a route that needs no key), no account could have the claim.
    async identify() {
      if (!x.caller) return undefined
      const { ref } = x.caller
      const { id, method, path, body } = x
      // Before a large body was read, its API key was checked: so the claim may be taken in a later tick.
      const isLarge = body.length > largeBytes
      const bodyHash = isLarge
        ? await sha256InTurns(body, { ref, encoding: 'base64url' })
        : undefined
      const attempt = attemptOf({ id, ref, method, path, key, body, bodyHash })
      const found = await decided(x, attempt)
      if (found.is !== 'taken') return answerOf(x, found)
      x.claim = found.claim
      return undefined
    },
    // A repetition may read a stream for half an hour.
    answered() {
      x.want = undefined
      x.forgetBody()
      x.memory.keep(0)
    },
    done: () => x.claim?.release(),
  }
}

/** A repetition with Last-Event-ID only reads on and never creates, so it must not take the claim for as long as it reads. */
function resumes({ route, headers }: Exchange): boolean {
  return route.awaitsFirst === true && Boolean(headers['last-event-id'])
}

const pollMs = 40
/** Longer than the lease of a claim, so that a repetition can take over from a first try that died. */
const patienceMs = claimLeaseMs + 1000

/** On a route with a stream, a repetition waits until the first try has its stream, or releases the claim. */
async function decided(x: Exchange, attempt: ClaimAttempt): Promise<ClaimState> {
  const ask = () => (resumes(x) ? attempt.look() : attempt.take())
  const until = performance.now() + patienceMs
  let found = await ask()
  while (found.is === 'running' && x.route.awaitsFirst && performance.now() < until) {
    await pause(pollMs)
    x.signal.throwIfAborted()
    if (x.left.aborted) throw new ClientLeft()
    found = await ask()
  }
  return found
}

async function answerOf(x: Exchange, found: Exclude<ClaimState, { is: 'taken' }>) {
  switch (found.is) {
    case 'free':
      return undefined
    case 'running':
      throw new GatewayError('idempotency_in_progress')
    case 'pointing':
      if (!x.route.replay) throw new TypeError(`${x.route.path} creates and has no replay`)
      return replayed(await x.route.replay(x, found.pointer))
  }
}

function replayed(answer: Answer): Answer {
  return { ...answer, headers: { ...answer.headers, 'Idempotent-Replayed': 'true' } }
}
