// The texts that let a customer in: a portal link and a cookie, `<account's ref>.<256 random bits>`. The ref says which
// slot of a Cluster to ask. Only the SHA-256 of the whole text is stored, and nobody can guess 256 bits, so the hash has
// no salt and comparing it needs no constant time.

import { hash, randomBytes } from 'node:crypto'
import { z } from '../config/schema.ts'

/** What a log-in sends. */
export const entering = z.strictObject({
  link: z.string({ error: 'write what the link has after #link=' }),
})

/** A text that lets in, with what Redis has of it. */
export interface Entry {
  readonly ref: string
  readonly hash: string
}

export function newSecret(ref: string): string {
  return `${ref}.${randomBytes(32).toString('base64url')}`
}

const shape = /^([0-9A-Za-z]{12})\.[\w-]{43}$/

/** A ref that no account has, because those of accounts are random. */
const nobody = '000000000000'

/** A malformed text is looked up, too, under a ref that nobody has: so it takes as long to refuse as a wrong secret. */
export function entryOf(text: string): Entry {
  const ref = shape.exec(text)?.[1] ?? nobody
  return { ref, hash: hash('sha256', text, 'base64url') }
}
