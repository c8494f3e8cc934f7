// The HMAC of a key's text, by two one-shot hashes on blocks that are made once. `createHmac` makes objects outside the
// JavaScript heap for each request, and their collection costs more than the hashing.

import { createHmac, hash } from 'node:crypto'
import { plain } from '../plain.ts'

const blockBytes = 64
const sha256Bytes = 32
/** Of a key's text, see api-key.ts. */
const keyLength = 57

/** HMAC-SHA-256 under the pepper, base64url: all that is stored of a key. */
export function hmacKey(text: string, pepper: string): string {
  if (text.length !== keyLength || plain.has('key-hash')) {
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
  return { pepper, inner: padded(0x36, keyLength), outer: padded(0x5c, sha256Bytes) }
}
