// The Idempotency-Key header: 1 to 255 visible ASCII characters.

import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError } from '../errors.ts'

/** The header, if it was sent. Throws `invalid_parameter`. */
export function idempotencyKey(headers: IncomingHttpHeaders): string | undefined {
  const key = headers['idempotency-key']
  if (key === undefined || (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key))) return key
  throw new GatewayError('invalid_parameter', {
    param: 'Idempotency-Key',
    message: 'Idempotency-Key must be 1 to 255 visible ASCII characters.',
  })
}
