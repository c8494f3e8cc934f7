// Content-Disposition (RFC 6266) for a name that may hold anything. Promises a header of visible ASCII in which the name
// can neither end its parameter nor begin another, in the two forms that all clients together understand.

import { encodeExtended } from 'content-disposition'

export type Disposition = 'attachment' | 'inline'

/**
 * Both forms always: the plain one is for clients that know no other. Not by the package's `create`, which leaves quotes
 * and `%41` in it, where browsers differ about what they mean.
 */
export function contentDisposition(disposition: Disposition, filename: string): string {
  // A lone surrogate cannot be encoded.
  const name = filename.toWellFormed()
  return `${disposition}; filename="${plain(name)}"; filename*=${encodeExtended(name)}`
}

/**
 * Letters lose their accents; what is left beyond ASCII, and what careless parsers stop at, becomes `_`. Not by NFKD,
 * which makes slashes: of `℀` it is `a/c`.
 */
function plain(name: string): string {
  return name
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .normalize('NFC')
    .replace(/[^ -~]|["%;/\\]/gu, '_')
}
