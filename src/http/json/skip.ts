// Skips JSON tokens in a Buffer: one pass, no recursion, no copies. Each function takes the position where a token or
// value begins and returns the position after it. Depth is bounded; strings and brackets must close, in their order.

import type { GatewayError } from '../../errors.ts'
import { isSpace, stringEnd } from './tokens.ts'
import { invalidJson } from '../refusals.ts'

export const maxDepth = 64
const quote = 0x22
const colon = 0x3a
const openBracket = 0x5b
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/** At most this much white space is skipped in one call. */
const spaceBytes = 64 * 1024

export function skipSpace(text: Buffer, from: number): number {
  const most = from + spaceBytes
  let i = from
  while (i < most && isSpace(text[i])) i++
  return i
}

/** From the opening quote to the position after the closing quote. */
export function skipString(text: Buffer, from: number): number {
  const end = stringEnd(text, from + 1, text.length)
  if (end === text.length) throw unfinished()
  return end + 1
}

/** From the first byte of any value. Of numbers and words only the end is found; they are not checked. */
export function skipValue(text: Buffer, from: number): number {
  const c = text[from]
  if (c === quote) return skipString(text, from)
  if (c === openBrace || c === openBracket) return skipNested(text, from)
  let i = from
  while (isPlain(text[i])) i++
  if (i === from) throw unfinished()
  return i
}

/** The characters of numbers, true, false and null. */
export function isPlain(c: number | undefined): boolean {
  if (c === undefined) return false
  return (c >= 0x61 && c <= 0x7a) || (c >= 0x30 && c <= 0x39) || isSign(c)
}

function isSign(c: number): boolean {
  return c === 0x2d || c === 0x2b || c === 0x2e || c === 0x45
}

/** The closing brackets that must come, innermost last. The body's own brace is one level. */
const due = new Uint8Array(maxDepth)

/** The keys of all objects that were skipped since the caller set this to 0. If the parsed value has fewer, a key was there twice. */
export const passed = { keys: 0 }

function skipNested(text: Buffer, from: number): number {
  let depth = 1
  let keys = 0
  for (let i = from; i < text.length; i++) {
    const c = text[i] ?? 0
    if (c === quote) i = skipString(text, i) - 1
    else if (c === colon) keys++
    else if (c === openBrace || c === openBracket) {
      if (depth === maxDepth) throw tooDeep()
      due[depth++] = c + 2
    } else if (c === closeBrace || c === closeBracket) {
      if (due[--depth] !== c) throw unfinished()
      if (depth === 1) {
        passed.keys += keys
        return i + 1
      }
    }
  }
  throw unfinished()
}

export function unfinished(): GatewayError {
  return invalidJson('The body is not valid JSON: a string, bracket or value is not complete.')
}

export function tooDeep(): GatewayError {
  return invalidJson(`The body is nested deeper than ${maxDepth} levels.`)
}
