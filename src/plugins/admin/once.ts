// Idempotency-Key on creating calls of the admin API. Redis keeps for a day not the answer but the seed of the creation
// (ids, a key's text). A repeated call, even after a crash in the middle, creates from the same seed, which has no
// further effect. A seed can hold a key's text, so it is encrypted with the admin token and the Idempotency-Key.

import { createCipheriv, createDecipheriv, createHmac, hash, randomBytes } from 'node:crypto'
import { GatewayError } from '../../errors.ts'
import { json } from '../../exchange.ts'
import type { Answer, Exchange } from '../../exchange.ts'
import type { Gateway } from '../../plugin.ts'
import { asked } from '../../redis/asked.ts'
import { keys } from '../../redis/redis.ts'
import { idempotencyKey } from '../../http/headers.ts'

export interface Creation<Seed> {
  readonly seed: Seed
  /** Calling it again with the same seed must have no further effect. */
  create(seed: Seed): Promise<object>
}

const daySeconds = 24 * 3600

/** Answers 201 with the created object; with `Idempotent-Replayed` when an earlier call has created it. */
export async function once<Seed>(
  { redis: { client }, config }: Gateway,
  x: Exchange,
  { seed, create }: Creation<Seed>,
): Promise<Answer> {
  const key = idempotencyKey(x.headers)
  if (key === undefined) return json(await create(seed), 201)
  const secret = (use: string) =>
    createHmac('sha256', config.admin.token).update(`${use}\n${x.method} ${x.path}\n${key}`)
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

const algorithm = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

function seal(text: string, key: Buffer): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(algorithm, key, nonce)
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')
}

function unseal(text: string, key: Buffer): string {
  const bytes = Buffer.from(text, 'base64url')
  const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes))
  decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
  const sealed = bytes.subarray(nonceBytes + tagBytes)
  return Buffer.concat([decipher.update(sealed), decipher.final()]).toString('utf8')
}
