// Ids of resources: a prefix and a monotonic UUIDv7 as 32 hex digits, so that a later id is always the greater one.
// Node's own randomUUIDv7 has no counter: half of the ids made in one millisecond are out of order.

import { randomFillSync } from 'node:crypto'
import { V7Generator } from 'uuidv7'

export type IdPrefix = 'sess' | 'msg' | 'file' | 'txn' | 'req' | 'acct' | 'key'

/** Random numbers for some hundred ids: to fetch them one by one is most of what an id costs. */
const pool = new Uint32Array(1024)
let used = pool.length

const generator = new V7Generator({
  nextUint32() {
    if (used === pool.length) {
      randomFillSync(pool)
      used = 0
    }
    return pool[used++] ?? 0
  },
})

export function newId(prefix: IdPrefix): string {
  return `${prefix}_${generator.generate().toHex()}`
}

/** The next greater id. It keeps the millisecond of `id` unless that is full. Needed when a clock that ran ahead made `id`. */
export function idAfter(id: string): string {
  const [prefix, hex = ''] = id.split('_')
  const next = counterOf(BigInt(`0x${hex}`)) + 1n
  return `${prefix}_${uuidOf(next).toString(16).padStart(32, '0')}`
}

/** Whether `text` has the form of an id that newId makes. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return text.length === prefix.length + 33 && text.startsWith(`${prefix}_`) && tail.test(text)
}

/** When the id was made, in Unix seconds. */
export function secondsOf(id: string): number {
  const start = id.indexOf('_') + 1
  return Math.floor(Number.parseInt(id.slice(start, start + 12), 16) / 1000)
}

const tail = /_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/

// A UUIDv7 is 48 bits of time, version 7, 12 bits, variant 10, 62 bits. Without version and variant, the rest is one
// number that can be incremented.
const low = (1n << 62n) - 1n
const middle = (1n << 12n) - 1n

function counterOf(uuid: bigint): bigint {
  return ((uuid >> 80n) << 74n) | (((uuid >> 64n) & middle) << 62n) | (uuid & low)
}

function uuidOf(counter: bigint): bigint {
  const version = (7n << 76n) | (2n << 62n)
  return (
    ((counter >> 74n) << 80n) | version | (((counter >> 62n) & middle) << 64n) | (counter & low)
  )
}
