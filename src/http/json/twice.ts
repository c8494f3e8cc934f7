// A key that stands twice in one object: two readers may take two different values for it. JSON.parse keeps the last one
// and says nothing, so the keys that were parsed are counted against those that were written (json-scan.ts).

import { GatewayError } from '../../errors.ts'
import type { Member } from './scan.ts'

/** `value` is the member's, parsed. Throws `invalid_json`. */
export function refuseTwice(name: string, value: unknown, { keys }: Pick<Member, 'keys'>): void {
  if (keys === 0 || countKeys(value) === keys) return
  const message = `In "${name}" a key stands twice in one object.`
  throw new GatewayError('invalid_json', { param: name, message })
}

/** Of all objects in it. `for … in` makes no lists: half of the time, for messages. */
function countKeys(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let keys = 0
  if (Array.isArray(value)) {
    for (const one of value) if (typeof one === 'object') keys += countKeys(one)
    return keys
  }
  for (const key in value) {
    keys++
    const inner = (value as Readonly<Record<string, unknown>>)[key]
    if (typeof inner === 'object') keys += countKeys(inner)
  }
  return keys
}
