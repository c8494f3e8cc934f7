// Ids of resources: a prefix and a monotonic UUIDv7 as 32 hex digits, so that a later id is always the greater one.
// Node's own randomUUIDv7 has no counter: half of the ids made in one millisecond are out of order.

import { uuidv7obj } from 'uuidv7'

export type IdPrefix = 'sess' | 'msg' | 'file' | 'txn' | 'req' | 'acct' | 'key'

export function newId(prefix: IdPrefix): string {
  return `${prefix}_${uuidv7obj().toHex()}`
}
