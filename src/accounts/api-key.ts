// The text of an API key: `tg_live_<12 base62 ref>_<30 base62 secret><6 base62 CRC-32>`.
// Made, checked and hashed here; pure, no Redis. A text with a bad checksum is refused without asking anybody.

import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

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

/** The account that a key names, or undefined where the text cannot be a key. Proves nothing: who made it up knows CRC-32 too. */
export function parseKey(text: string): { readonly ref: string } | undefined {
  // The length first: a header of 16 KiB is not worth a regular expression.
  if (text.length !== textLength || !shape.test(text)) return undefined
  if (text.slice(-checksumLength) !== checksum(text.slice(0, -checksumLength))) return undefined
  return { ref: text.slice(prefix.length, prefix.length + refLength) }
}

/** What people are shown of a key once it is made: its end, since all keys of an account begin alike. */
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

interface Pads {
  readonly pepper: string
  /** `pepper ⊕ ipad`, then room for one key. */
  readonly inner: Buffer
  /** `pepper ⊕ opad`, then room for the inner hash. */
  readonly outer: Buffer
}

let pads: Pads | undefined

/**
 * HMAC-SHA-256 under the pepper, base64url: all that is stored of a key. Two `hash` calls on prepared blocks take
 * 1.0 µs, createHmac 2.3; the inner hash goes through a latin1 string because a Buffer of its own costs 1.5 µs.
 */
export function hmacKey(text: string, pepper: string): string {
  if (pads?.pepper !== pepper) pads = createPads(pepper)
  const { inner, outer } = pads
  const isUsual = text.length === textLength
  const head = inner.subarray(0, blockBytes)
  if (isUsual) inner.write(text, blockBytes, 'latin1')
  const message = isUsual ? inner : Buffer.concat([head, Buffer.from(text)])
  outer.write(hash('sha256', message, 'latin1'), blockBytes, 'latin1')
  return hash('sha256', outer, 'base64url')
}

function createPads(pepper: string): Pads {
  const bytes = Buffer.from(pepper)
  // RFC 2104: a secret longer than a block is hashed first.
  const secret = bytes.length > blockBytes ? hash('sha256', bytes, 'buffer') : bytes
  const inner = Buffer.alloc(blockBytes + textLength)
  const outer = Buffer.alloc(blockBytes + sha256Bytes)
  for (let i = 0; i < blockBytes; i++) {
    const byte = secret[i] ?? 0
    inner[i] = byte ^ 0x36
    outer[i] = byte ^ 0x5c
  }
  return { pepper, inner, outer }
}
