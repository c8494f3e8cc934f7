// Idempotency-Key on routes that create something: a repetition is answered what the first try was, for a day, and never
// creates again. The claim is taken in the tick in which the key is looked up; a refusal by auth goes before any replay.
// What is kept, the creating route writes itself (x.claim); what it did not keep is let go, so refusals are not kept.

import { setTimeout as pause } from 'node:timers/promises'
import { claimLeaseMs, createClaims } from '../redis/claims.ts'
import type { ClaimState, KeyPlace, Try } from '../redis/claims.ts'
import { z } from '../config/schema.ts'
import { GatewayError } from '../errors.ts'
import type { Answer, Exchange, Hooks } from '../exchange.ts'
import { ClientLeft } from '../http/body.ts'
import { sha256InTurns } from '../http/digest.ts'
import { idempotencyKey } from '../http/idempotency-key.ts'
import type { Plugin } from '../plugin.ts'

const schema = z.strictObject({})

export const idempotency: Plugin<z.infer<typeof schema>> = {
  name: 'idempotency',
  schema,
  setup({ redis, metrics }) {
    const onReply = (script: string, seconds: number) =>
      metrics.redisSeconds.observe({ script }, seconds)
    const placeOf = createClaims({ link: redis, onReply })
    return {
      begin(x) {
        const isMeant = x.route.creates && x.headers['idempotency-key'] !== undefined
        return isMeant ? hooksOf(x, placeOf) : undefined
      },
    }
  },
}

/** Hashed at once: 0.3 ms. */
const largeBytes = 256 * 1024

function hooksOf(x: Exchange, placeOf: (one: Try) => KeyPlace): Hooks {
  let key = ''
  return {
    check() {
      key = idempotencyKey(x.headers) ?? ''
    },
    // No caller: a route that needs no key has no account to keep a claim for.
    async identify() {
      if (!x.caller) return undefined
      const { ref } = x.caller
      const { id, method, path, body } = x
      // The key of a large body is known to be good: it need not go out in this tick.
      const isLarge = body.length > largeBytes
      const bodyHash = isLarge
        ? await sha256InTurns(body, { ref, encoding: 'base64url' })
        : undefined
      const place = placeOf({ id, ref, method, path, key, body, bodyHash })
      const found = await decided(x, place)
      if (found.is !== 'taken') return answerOf(x, found)
      x.claim = found.claim
      return undefined
    },
    done: () => x.claim?.release(),
  }
}

/** A repetition that goes on reading never creates, so it must not hold its key either, for as long as it reads. */
function resumes({ route, headers }: Exchange): boolean {
  return route.awaitsFirst === true && Boolean(headers['last-event-id'])
}

const pollMs = 40
/** A first try that died is taken over when its lease ends. */
const patienceMs = claimLeaseMs + 1000

/** Where there is a stream to read along, the first try is waited for: until its stream exists, or it let go. */
async function decided(x: Exchange, place: KeyPlace): Promise<ClaimState> {
  const ask = () => (resumes(x) ? place.look() : place.take())
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
      throw new GatewayError('idempotency_in_progress', { retryAfterMs: 1000 })
    case 'pointing':
      if (!x.route.replay) throw new TypeError(`${x.route.path} creates and has no replay`)
      return replayed(await x.route.replay(x, found.pointer))
  }
}

function replayed(answer: Answer): Answer {
  return { ...answer, headers: { ...answer.headers, 'Idempotent-Replayed': 'true' } }
}
