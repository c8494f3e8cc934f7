// The tokens of JSON text in a Buffer, one at a time: no recursion, no copies, nothing is parsed. Never refuses: of
// text that is broken or cut off, it gives the tokens that are there. For callers that count; strict ones use scan.ts.

/** A part of a text, in bytes. */
export interface Span {
  readonly start: number
  readonly end: number
}

export type TokenKind = 'open' | 'close' | 'key' | 'string' | 'number' | 'word' | 'end'

const quote = 0x22
const backslash = 0x5c
const colon = 0x3a
/** Starting a native search costs as much as looking at this many bytes here. */
const byHandBytes = 64
const mostByHandBytes = 8192

export class JsonTokens {
  readonly #text: Buffer
  readonly #to: number
  #at: number
  /** Where the last token lies; for a string or key, without its quotes. */
  start = 0
  end = 0
  /** How many brackets are open; `open` and `close` tokens are counted already. */
  depth = 0
  /** How many tokens were read so far. */
  count = 0

  constructor(text: Buffer, { from = 0, to = text.length } = {}) {
    this.#text = text
    this.#to = to
    this.#at = from
  }

  next(): TokenKind {
    const text = this.#text
    let i = this.#at
    while (i < this.#to && isBetween(text[i] ?? 0)) i++
    this.start = i
    this.end = i
    if (i >= this.#to) return 'end'
    this.count++
    const c = text[i] ?? 0
    if (c === quote) return this.#string(i + 1)
    if (c === 0x7b || c === 0x5b) {
      this.depth++
      return this.#one(i, 'open')
    }
    if (c === 0x7d || c === 0x5d) {
      this.depth--
      return this.#one(i, 'close')
    }
    return this.#plain(i, c)
  }

  /** After an `open`: whether it opens a list. */
  get isList(): boolean {
    return this.#text[this.start] === 0x5b
  }

  #one(at: number, kind: TokenKind): TokenKind {
    this.#at = this.end = at + 1
    return kind
  }

  #string(from: number): TokenKind {
    const end = stringEnd(this.#text, from, this.#to)
    this.start = from
    this.end = end
    let i = end + 1
    while (i < this.#to && isSpace(this.#text[i] ?? 0)) i++
    const isKey = this.#text[i] === colon && i < this.#to
    this.#at = isKey ? i + 1 : i
    return isKey ? 'key' : 'string'
  }

  #plain(from: number, first: number): TokenKind {
    let i = from + 1
    while (i < this.#to && isPlain(this.#text[i] ?? 0)) i++
    this.#at = this.end = i
    return (first >= 0x30 && first <= 0x39) || first === 0x2d ? 'number' : 'word'
  }
}

/** The position of the closing quote; `from` is after the opening quote. Returns `to` when there is none. */
export function stringEnd(text: Buffer, from: number, to: number): number {
  let i = from
  let bytes = byHandBytes
  while (i < to) {
    const byHand = Math.min(i + bytes, to)
    for (; i < byHand; i++) {
      const c = text[i]
      if (c === quote) return i
      if (c === backslash) i++
    }
    if (i >= to) break
    const found = text.indexOf(quote, i)
    if (found < 0 || found >= to) break
    let slashes = 0
    while (found - slashes > i && text[found - slashes - 1] === backslash) slashes++
    if (slashes % 2 === 0) return found
    i = found + 1
    // If one quote is escaped, more will be.
    bytes = Math.min(2 * bytes, mostByHandBytes)
  }
  return to
}

export const isSpace = (c: number | undefined): boolean =>
  c === 0x20 || c === 0x0a || c === 0x0d || c === 0x09

/** White space, commas, and a colon after something that is not a key. */
const isBetween = (c: number): boolean => isSpace(c) || c === 0x2c || c === colon

function isPlain(c: number): boolean {
  if (isBetween(c) || c === quote) return false
  return c !== 0x7b && c !== 0x7d && c !== 0x5b && c !== 0x5d
}

/** The text of a string or a key with its escapes resolved; if they are broken, the text as written. */
export function decoded(text: Buffer, from: number, to: number): string {
  const raw = text.toString('utf8', from, to)
  if (!raw.includes('\\')) return raw
  try {
    return JSON.parse(`"${raw}"`) as string
  } catch {
    return raw
  }
}
