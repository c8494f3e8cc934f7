// Idempotency-Key on calls that create an account or a key: those of the admin API and of the account page. Redis keeps
// for a day not the answer but the seed of the creation (ids, a key's text). A repeated call, even after a crash in the
// middle, creates from the same seed, which has no further effect. A seed can hold a key's text, so it is encrypted with
// the admin token and the Idempotency-Key.

import { createHmac, hash } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import { json } from '../exchange.ts'
import type { Answer, Exchange } from '../exchange.ts'
import { asked } from '../redis/asked.ts'
import type { Redis } from '../redis/client.ts'
import { keys } from '../redis/keys.ts'
import { idempotencyKey } from '../http/headers.ts'
import { seal, unseal } from './seal.ts'

export interface Creation<Seed> {
  readonly seed: Seed
  /** Calling it again with the same seed must have no further effect. */
  create(seed: Seed): Promise<object>
}

export interface OnceParts {
  readonly config: Pick<Config, 'admin'>
  readonly redis: { readonly client: Redis }
}

type OnceRequest = Pick<Exchange, 'headers' | 'method' | 'path' | 'body' | 'caller'>

const daySeconds = 24 * 3600

/**
 * Answers 201 with the created object; with `Idempotent-Replayed` when an earlier call has created it. An
 * Idempotency-Key belongs to the caller's account, or to the operator.
 */
export async function once<Seed>(
  { redis: { client }, config }: OnceParts,
  x: OnceRequest,
  { seed, create }: Creation<Seed>,
): Promise<Answer> {
  const key = idempotencyKey(x.headers)
  if (key === undefined) return json(await create(seed), 201)
  const secret = (use: string) =>
    createHmac('sha256', config.admin.token).update(
      `${use}${x.caller?.ref ?? ''}\n${x.method} ${x.path}\n${key}`,
    )
  const claim = keys.adminClaim(secret('name').digest('base64url'))
  const sealKey = secret('seal').digest()
  const body = hash('sha256', x.body, 'base64url')
  const sealed = seal(JSON.stringify({ body, seed }), sealKey)
  const before = await asked(client.set(claim, sealed, 'EX', daySeconds, 'NX', 'GET'))
  if (before === null) {
    try {
      return json(await create(seed), 201)
    } catch (error) {
      // A refusal is not kept: after it, the same key may be used for a better try.
      if (isRefusal(error)) await asked(client.del(claim))
      throw error
    }
  }
  const claimed = JSON.parse(unseal(before, sealKey)) as { body: string; seed: Seed }
  if (claimed.body !== body) throw new GatewayError('idempotency_key_reused')
  return json(await create(claimed.seed), 201, { 'Idempotent-Replayed': 'true' })
}

function isRefusal(error: unknown): boolean {
  return error instanceof GatewayError && error.source === 'client'
}
