// Refuses an object that has a key twice: two readers may take two different values for it. JSON.parse keeps the last
// value and says nothing, so the number of parsed keys is compared with the number of written keys (scan.ts).

import { GatewayError } from '../../errors.ts'
import type { Member } from './scan.ts'

/** `value` is the member's parsed value. Throws `invalid_json`. */
export function refuseTwice(name: string, value: unknown, { keys }: Pick<Member, 'keys'>): void {
  if (keys === 0 || countKeys(value) === keys) return
  const message = `In "${name}" a key stands twice in one object.`
  throw new GatewayError('invalid_json', { param: name, message })
}

/** Counts the keys of all objects in the value. `for … in` makes no lists, so it takes half the time for messages. */
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
