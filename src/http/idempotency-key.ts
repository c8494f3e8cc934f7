// The Idempotency-Key header: 1 to 255 visible ASCII characters.

import type { IncomingHttpHeaders } from 'node:http'
import { invalidParameter } from './refusals.ts'

/** The header, if it was sent. Throws `invalid_parameter`. */
export function idempotencyKey(headers: IncomingHttpHeaders): string | undefined {
  const key = headers['idempotency-key']
  if (key === undefined || (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key))) return key
  const message = 'Idempotency-Key must be 1 to 255 visible ASCII characters.'
  throw invalidParameter('Idempotency-Key', message)
}
