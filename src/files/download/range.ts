// Parses the Range header (RFC 9110 §14) for a file of known length. Not by range-parser, which refuses a suffix longer
// than the file (it means the whole file) and calls `5-2` unsatisfiable (it is no range at all). Pure.

import type { ByteRange } from '../../store/store.ts'

/**
 * `whole` when the header must be ignored: another unit, several ranges, no valid range. `none` when the file has no
 * byte of the range.
 */
export function parseRange(header: string, bytes: number): ByteRange | 'whole' | 'none' {
  const set = /^bytes=(.*)$/i.exec(header)?.[1]
  if (set === undefined) return 'whole'
  // Empty elements of a list are to be passed over (§5.6.1).
  const specs = set.split(',').map((spec) => spec.trim())
  const [spec, ...others] = specs.filter((one) => one !== '')
  if (spec === undefined || others.length > 0) return 'whole'
  return parseSpec(spec, bytes)
}

function parseSpec(spec: string, bytes: number): ByteRange | 'whole' | 'none' {
  const [, first, last] = /^(\d*)-(\d*)$/.exec(spec) ?? []
  if (first === undefined || last === undefined || spec === '-') return 'whole'
  if (first === '') return suffix(Number(last), bytes)
  const start = Number(first)
  if (last !== '' && isLess(last, first)) return 'whole'
  if (start >= bytes) return 'none'
  return { start, end: last === '' ? bytes - 1 : Math.min(Number(last), bytes - 1) }
}

/** A suffix of an empty file is satisfiable, but no Content-Range can express it: the whole file is sent. */
function suffix(length: number, bytes: number): ByteRange | 'whole' | 'none' {
  if (length === 0) return 'none'
  if (bytes === 0) return 'whole'
  return { start: Math.max(0, bytes - length), end: bytes - 1 }
}

/** The grammar allows any number of digits; as doubles, large numbers could be equal. */
function isLess(a: string, b: string): boolean {
  return BigInt(a) < BigInt(b)
}
