// Whose account a request is for.

import { GatewayError } from './errors.ts'
import type { Exchange } from './exchange.ts'

/** The caller's account, as its keys in Redis name it. Throws `missing_api_key` where nobody called. */
export function refOf({ caller }: Pick<Exchange, 'caller'>): string {
  if (!caller) throw new GatewayError('missing_api_key')
  return caller.ref
}
