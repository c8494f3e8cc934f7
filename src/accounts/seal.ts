// Texts that others keep for the gateway, in Redis or in a browser's cookie, and can neither read nor change:
// AES-256-GCM.

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

const algorithm = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/** Sealed twice, a text is never the same. */
export function seal(text: string, key: Buffer): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv(algorithm, key, nonce)
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')
}

/** Throws when this text, letter by letter, was not sealed with this key. */
export function unseal(text: string, key: Buffer): string {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text) throw new Error('not a sealed text')
  const nonce = bytes.subarray(0, nonceBytes)
  const decipher = createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes })
  decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
  const sealed = bytes.subarray(nonceBytes + tagBytes)
  return Buffer.concat([decipher.update(sealed), decipher.final()]).toString('utf8')
}
