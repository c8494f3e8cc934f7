// The text of an API key: `tg_live_<12 base62 ref>_<30 base62 secret><6 base62 CRC-32>`.
// Made, checked and hashed here; pure, no Redis. A text with a bad checksum is refused without a call to Redis.

import { createHmac, hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Config } from '../config/config.ts'
import { secret } from '../config/schema.ts'
import { settingsOf } from '../config/settings.ts'
import { plain } from '../plain.ts'

export const accountSettings = settingsOf('auth', {
  pepper: secret()
    .default('')
    .describe(
      'Secret mixed into stored key hashes. Another one would make every key invalid: a gateway refuses it at start and reload (docs/runbook.md#another-pepper).',
    ),
})

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const prefix = 'tg_live_'
const refLength = 12
const secretLength = 30
const checksumLength = 6
const textLength = prefix.length + refLength + 1 + secretLength + checksumLength
const shape = /^tg_live_[0-9A-Za-z]{12}_[0-9A-Za-z]{36}$/

/** The 12 characters that name an account in keys and in Redis' hash tags. */
export function newRef(): string {
  return randomBase62(refLength)
}

export function newKey(ref: string): string {
  const head = `${prefix}${ref}_${randomBase62(secretLength)}`
  return head + checksum(head)
}

/** The account that a key names; undefined when the text cannot be a key. Proves nothing: anybody can compute a CRC-32. */
export function parseKey(text: string): { readonly ref: string } | undefined {
  // The length first: a header of 16 KiB is not worth a regular expression.
  if (text.length !== textLength || !shape.test(text)) return undefined
  if (text.slice(-checksumLength) !== checksum(text.slice(0, -checksumLength))) return undefined
  return { ref: text.slice(prefix.length, prefix.length + refLength) }
}

/** What the names of a key in Redis are made of. */
export interface KeyNames {
  readonly ref: string
  readonly hmac: string
}

/** Reads texts that clients send: undefined for one that cannot be a key. Proves nothing, the ledger does that. */
export function keyReader(config: Pick<Config, 'plugins'>): (text: string) => KeyNames | undefined {
  const { pepper } = accountSettings.of(config)
  return (text) => {
    const parsed = parseKey(text)
    return parsed && { ref: parsed.ref, hmac: hmacKey(text, pepper) }
  }
}

/** What people see of a key after it was made: its end, because all keys of an account begin alike. */
export function keyHint(text: string): string {
  return `${prefix}…${text.slice(-4)}`
}

function checksum(head: string): string {
  let rest = crc32(head)
  let text = ''
  for (let i = 0; i < checksumLength; i++) {
    text = alphabet.charAt(rest % 62) + text
    rest = Math.floor(rest / 62)
  }
  return text
}

/** Bytes from 248 up are thrown away: 256 is no multiple of 62, and `% 62` alone would favour the first 8 characters. */
function randomBase62(length: number): string {
  let text = ''
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && text.length < length) text += alphabet.charAt(byte % 62)
    }
  }
  return text
}

const blockBytes = 64
const sha256Bytes = 32

/**
 * HMAC-SHA-256 under the pepper, base64url: all that is stored of a key. Two one-shot hashes on blocks that are made
 * once: `createHmac` makes objects outside the JavaScript heap for each request, and their collection costs more than the
 * hashing.
 */
export function hmacKey(text: string, pepper: string): string {
  if (text.length !== textLength || plain.has('key-hash')) {
    return createHmac('sha256', pepper).update(text).digest('base64url')
  }
  if (pads?.pepper !== pepper) pads = padsOf(pepper)
  const { inner, outer } = pads
  inner.write(text, blockBytes, 'latin1')
  outer.write(hash('sha256', inner, 'latin1'), blockBytes, 'latin1')
  return hash('sha256', outer, 'base64url')
}

/** The two messages that RFC 2104 hashes: the pepper with a pad, then room for a key, or for the inner hash. */
interface Pads {
  readonly pepper: string
  readonly inner: Buffer
  readonly outer: Buffer
}

let pads: Pads | undefined

function padsOf(pepper: string): Pads {
  const bytes = Buffer.from(pepper)
  // A secret that is longer than a block is hashed first.
  const secret = bytes.length > blockBytes ? hash('sha256', bytes, 'buffer') : bytes
  const padded = (pad: number, room: number) => {
    const block = Buffer.alloc(blockBytes + room)
    for (let i = 0; i < blockBytes; i++) block[i] = (secret[i] ?? 0) ^ pad
    return block
  }
  return { pepper, inner: padded(0x36, textLength), outer: padded(0x5c, sha256Bytes) }
}
