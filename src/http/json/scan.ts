// Finds where the top-level members of a JSON body lie, byte for byte, so that some can be changed and all other bytes
// stay as they are (splice.ts). Refuses what two parsers might read in two ways: duplicate keys, and keys that only
// look like the gateway's own (Go backends match without case). A body over 4 KiB is parsed ahead, in pieces, once the
// caller's key is known: to parse it here would block the event loop.

import { isUtf8 } from 'node:buffer'
import { inTurns } from '../../sharing/fair-turns.ts'
import { JsonParse, maxMembers, memberTwice, tooManyMembers } from './parse.ts'
import type { JsonParseOptions, Member, ParsedObject } from './parse.ts'
import { passed, skipSpace, skipString, skipValue } from './skip.ts'
import { parseText } from './string.ts'
import { brokenJson, invalidJson } from '../refusals.ts'

export type { Member } from './parse.ts'

export interface JsonScan {
  /** By unescaped key, in the order of the body. */
  readonly members: ReadonlyMap<string, Member>
  /** The position after the opening brace. */
  readonly start: number
  /** The member's value; returns undefined when there is no such member. */
  value(key: string): unknown
  /** The member's value as it was sent. */
  text(key: string): string | undefined
}

/** A body up to this size is parsed at once, whoever sent it: 10 µs, 0.3 ms at the worst. */
export const smallBytes = 4096

const aheadOf = new WeakMap<Buffer, ParsedObject>()

export interface ParseAhead extends JsonParseOptions {
  /** The account whose turns it takes. */
  readonly ref: string
}

/** The memory of an empty object; an empty list or a number takes less. */
const itemBytes = 64

/**
 * Parses a large body in pieces; `scanJson` then uses the result. Does nothing for a small body. Resolves with the
 * bytes that the kept values take. Throws `invalid_json`.
 */
export async function parseAhead(body: Buffer, { ref, ...options }: ParseAhead): Promise<number> {
  if (body.length <= smallBytes) return 0
  const parse = new JsonParse(body, options)
  const parsed = await inTurns(ref, () => parse.step())
  aheadOf.set(body, parsed)
  return parsed.chars + parsed.items * itemBytes
}

/** `ownKeys` are the keys that the gateway reads or writes. Throws `invalid_json`. */
export function scanJson(body: Buffer, ownKeys: ReadonlySet<string>): JsonScan {
  const parsed = aheadOf.get(body)
  if (parsed) return scanOf(body, parsed, ownKeys)
  return body.length <= smallBytes
    ? scanSmall(body, ownKeys)
    : scanOf(body, parseNow(body), ownKeys)
}

function parseNow(body: Buffer): ParsedObject {
  const parse = new JsonParse(body)
  for (;;) {
    const parsed = parse.step()
    if (parsed) return parsed
  }
}

function scanOf(
  body: Buffer,
  { members, values }: ParsedObject,
  ownKeys: ReadonlySet<string>,
): JsonScan {
  for (const [key, { keyStart }] of members) {
    const end = body.indexOf(quote, keyStart + 1)
    checkKey(key, { written: body.toString('utf8', keyStart + 1, end), ownKeys })
  }
  const slice: Slice = (from, to) => body.toString('utf8', from, to)
  return toScan({ members, values }, body.indexOf(openBrace) + 1, slice)
}

/** The text between two positions of a body. */
type Slice = (from: number, to: number) => string

function toScan(
  { members, values }: Pick<ParsedObject, 'members' | 'values'>,
  start: number,
  slice: Slice,
): JsonScan {
  return {
    members,
    start,
    value: (key) => (members.has(key) ? values[key] : undefined),
    text(key) {
      const member = members.get(key)
      return member && slice(member.valueStart, member.valueEnd)
    },
  }
}

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d

/** JSON.parse gives the values, and refuses what the scan does not check. */
function scanSmall(body: Buffer, ownKeys: ReadonlySet<string>): JsonScan {
  if (!isUtf8(body)) throw invalidJson('The body is not valid UTF-8.')
  const whole = body.toString()
  // If every char is a byte, slices of the text are ten times cheaper than decoding the keys one by one.
  const slice: Slice =
    whole.length === body.length
      ? (from, to) => whole.slice(from, to)
      : (from, to) => body.toString('utf8', from, to)
  const start = openingBrace(body)
  const members = new Map<string, Member>()
  let i = skipSpace(body, start)
  if (body[i] !== closeBrace) i = scanMembers(body, i, { members, ownKeys, slice })
  if (skipSpace(body, i + 1) !== body.length)
    throw invalidJson('Something follows the JSON object.')
  const values = parseText(whole) as Readonly<Record<string, unknown>>
  return toScan({ members, values }, start, slice)
}

function openingBrace(body: Buffer): number {
  if (body[0] === 0xef)
    throw invalidJson('The body begins with a byte order mark. Send it without.')
  const i = skipSpace(body, 0)
  if (body[i] !== openBrace) throw invalidJson('The body is not a JSON object.')
  return i + 1
}

interface Scanning {
  readonly members: Map<string, Member>
  readonly ownKeys: ReadonlySet<string>
  readonly slice: Slice
}

/** Scans from the first key to the closing brace, and returns the position of that brace. */
function scanMembers(body: Buffer, first: number, scanning: Scanning): number {
  const { members, ownKeys, slice } = scanning
  let i = first
  for (;;) {
    const keyStart = i
    if (body[i] !== quote) throw brokenJson(i)
    const keyEnd = skipString(body, i)
    i = skipSpace(body, keyEnd)
    if (body[i] !== colon) throw brokenJson(i)
    const valueStart = skipSpace(body, i + 1)
    passed.keys = 0
    const valueEnd = skipValue(body, valueStart)
    const written = slice(keyStart + 1, keyEnd - 1)
    const key = written.includes('\\') ? String(parseText(`"${written}"`)) : written
    checkKey(key, { written, ownKeys })
    if (members.has(key)) throw memberTwice(key)
    if (members.size === maxMembers) throw tooManyMembers()
    members.set(key, { keyStart, valueStart, valueEnd, keys: passed.keys })
    i = skipSpace(body, valueEnd)
    if (body[i] === closeBrace) return i
    if (body[i] !== comma) throw brokenJson(i)
    i = skipSpace(body, i + 1)
  }
}

interface WrittenKey {
  readonly written: string
  readonly ownKeys: ReadonlySet<string>
}

function checkKey(key: string, { written, ownKeys }: WrittenKey): void {
  if (ownKeys.has(written)) return
  // To upper case, then to lower case: only that also folds letters such as the long s and the Kelvin sign.
  if (ownKeys.has(key) || ownKeys.has(key.toUpperCase().toLowerCase())) {
    throw invalidJson(
      `The key "${written}" is spelt almost like one that the gateway reads. Write its exact letters, in the same case and without escapes.`,
    )
  }
}
