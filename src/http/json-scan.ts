// Where the top-level members of a JSON body lie, byte for byte, so that a body can be changed in places and go on
// untouched otherwise (splice.ts). Refuses what two parsers might read in two ways: duplicate keys, and keys that only
// look like the gateway's own (Go backends match without case). Above 1 MiB only the structure is checked, not each
// number and word: what is wrong there is wrong for the backend too.

import { isUtf8 } from 'node:buffer'
import { GatewayError } from '../errors.ts'
import { passed, skipSpace, skipString, skipValue } from './json-skip.ts'

export interface Member {
  /** At the key's first quote. */
  readonly keyStart: number
  readonly valueStart: number
  readonly valueEnd: number
  /** Of all objects in the value, as written: a parsed value with fewer had one twice (sameKeys). */
  readonly keys: number
}

export interface JsonScan {
  /** In the order of the body, by unescaped key. */
  readonly members: ReadonlyMap<string, Member>
  /** Behind the opening brace. */
  readonly start: number
  /** The member's value; undefined where there is none. */
  value(key: string): unknown
  /** The member's value as it was sent. */
  text(key: string): string | undefined
}

/** 20 MB: parse 26 ms, scan 8 ms. So above this only what is asked for is parsed. */
const parseWholeBytes = 1024 * 1024

/** `ownKeys` are those that the gateway reads or writes. Throws `invalid_json`. */
export function scanJson(body: Buffer, ownKeys: ReadonlySet<string>): JsonScan {
  if (!isUtf8(body)) throw invalid('The body is not valid UTF-8.')
  const whole = body.length <= parseWholeBytes ? body.toString() : undefined
  // Where a char is a byte, slices of the text are ten times cheaper than decoding keys one by one.
  const slice =
    whole?.length === body.length
      ? (from: number, to: number) => whole.slice(from, to)
      : (from: number, to: number) => body.toString('utf8', from, to)
  const start = openBrace(body)
  const members = new Map<string, Member>()
  let i = skipSpace(body, start)
  if (body[i] !== closeBrace) i = scanMembers(body, i, { members, ownKeys, slice })
  if (skipSpace(body, i + 1) !== body.length) throw invalid('Something follows the JSON object.')
  const text = (key: string) => {
    const member = members.get(key)
    return member && slice(member.valueStart, member.valueEnd)
  }
  return { members, start, text, value: valueReader(whole, { members, text }) }
}

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const closeBrace = 0x7d

function openBrace(body: Buffer): number {
  if (body[0] === 0xef) throw invalid('The body begins with a byte order mark. Send it without.')
  const i = skipSpace(body, 0)
  if (body[i] !== 0x7b) throw invalid('The body is not a JSON object.')
  return i + 1
}

interface Scanning {
  readonly members: Map<string, Member>
  readonly ownKeys: ReadonlySet<string>
  slice(from: number, to: number): string
}

/** From the first key to the closing brace, whose place it returns. */
function scanMembers(body: Buffer, first: number, scanning: Scanning): number {
  const { members, ownKeys, slice } = scanning
  let i = first
  for (;;) {
    const keyStart = i
    if (body[i] !== quote) throw broken(i)
    const keyEnd = skipString(body, i)
    i = skipSpace(body, keyEnd)
    if (body[i] !== colon) throw broken(i)
    const valueStart = skipSpace(body, i + 1)
    passed.keys = 0
    const valueEnd = skipValue(body, valueStart)
    const key = keyOf(slice(keyStart + 1, keyEnd - 1), ownKeys)
    if (members.has(key)) throw invalid(`The key ${JSON.stringify(key)} stands twice in the body.`)
    members.set(key, { keyStart, valueStart, valueEnd, keys: passed.keys })
    i = skipSpace(body, valueEnd)
    if (body[i] === closeBrace) return i
    if (body[i] !== comma) throw broken(i)
    i = skipSpace(body, i + 1)
  }
}

function keyOf(written: string, ownKeys: ReadonlySet<string>): string {
  if (ownKeys.has(written)) return written
  const key = written.includes('\\') ? String(parseText(`"${written}"`)) : written
  // Upper and lower once each: folds what has several lower cases, such as the long s and the Kelvin sign.
  if (ownKeys.has(key) || ownKeys.has(key.toUpperCase().toLowerCase())) {
    throw invalid(
      `The key "${written}" is too much like one that the gateway reads. Spell it exactly.`,
    )
  }
  return key
}

/** Below 1 MiB parses the body at once, which checks all of it. */
function valueReader(
  whole: string | undefined,
  { members, text }: Pick<JsonScan, 'members' | 'text'>,
) {
  const parsed = whole === undefined ? undefined : parseText(whole)
  const object = parsed as Readonly<Record<string, unknown>> | undefined
  return (key: string) => {
    if (!members.has(key)) return undefined
    return object ? object[key] : parseText(text(key) ?? '')
  }
}

function parseText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new GatewayError('invalid_json', { cause })
  }
}

function broken(at: number): GatewayError {
  return invalid(`The body is not valid JSON at byte ${at}.`)
}

function invalid(message: string): GatewayError {
  return new GatewayError('invalid_json', { message })
}
