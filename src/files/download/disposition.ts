// Content-Disposition (RFC 6266) for a name that may hold any character. The header
// is visible ASCII, and the name in it can neither end its parameter nor begin
// another one. It has two forms of the name, so that every client understands one.

import { encodeExtended } from 'content-disposition'

export type Disposition = 'attachment' | 'inline'

/**
 * Always writes both forms: the plain one is for clients that know no other. Not by the package's `create`, which
 * leaves quotes and `%41` in the plain form, and browsers read those differently.
 */
export function contentDisposition(disposition: Disposition, filename: string): string {
  // A lone surrogate cannot be encoded.
  const name = filename.toWellFormed()
  return `${disposition}; filename="${plain(name)}"; filename*=${encodeExtended(name)}`
}

/**
 * Letters lose their accents; other characters beyond ASCII, and those at which careless parsers stop, become `_`. Not
 * by NFKD, which makes slashes: it turns `℀` into `a/c`.
 */
function plain(name: string): string {
  return name
    .normalize('NFD')
    .replace(/\p{M}/gu, '')
    .normalize('NFC')
    .replace(/[^ -~]|["%;/\\]/gu, '_')
}
