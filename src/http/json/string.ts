// Reads the strings of a JSON text whose UTF-8 was checked: short ones at once, long ones in pieces of 64 KiB, so that
// a string of megabytes blocks nothing. In long strings, the next quote and backslash are found by native search.

import { GatewayError } from '../../errors.ts'
import { unfinished } from './skip.ts'
import { invalidJson } from '../refusals.ts'

export interface ReadString {
  readonly value: string
  /** The position after the closing quote. */
  readonly end: number
}

const shortBytes = 256
const pieceBytes = 64 * 1024
const quoteByte = 0x22
const backslashByte = 0x5c
/** An escape with `u` has six bytes, its backslash included: `\u0041`. */
const uByte = 0x75

export class StringReader {
  readonly #text: Buffer
  readonly #keptChars: number
  /** Where the next piece begins; undefined when no long string is being read. */
  #from: number | undefined
  /** The engine joins the pieces as a rope: 31 MiB of two-byte characters in one piece take 50 ms. */
  #value = ''
  /** Positions of the next quote and backslash, as far as the search has come. */
  #nextQuote = -1
  #nextBackslash = -1

  /** Of a long string, pieces are kept until it has `keptChars`; in the rest, control characters may pass. */
  constructor(text: Buffer, keptChars = Infinity) {
    this.#text = text
    this.#keptChars = keptChars
  }

  /** Whether a long string was begun and has not ended. */
  get isWithin(): boolean {
    return this.#from !== undefined
  }

  /** Returns undefined for a string that is long, or has escapes or characters outside ASCII. */
  readShort(start: number): ReadString | undefined {
    const text = this.#text
    const most = start + shortBytes
    for (let i = start + 1; i < most; i++) {
      const c = text[i] ?? 0
      if (c === quoteByte) return { value: text.toString('latin1', start + 1, i), end: i + 1 }
      if (c === backslashByte || c < 0x20 || c > 0x7e) return undefined
    }
    return undefined
  }

  /** Reads a key in one go. Throws when it has more than `maxBytes`. */
  readWhole(start: number, maxBytes: number): ReadString {
    const short = this.readShort(start)
    if (short) return short
    this.begin(start)
    const whole = this.readPiece()
    if (!whole || whole.end - start > maxBytes) {
      throw invalidJson(`A key in the body is longer than ${maxBytes} bytes.`)
    }
    return whole
  }

  begin(start: number): void {
    this.#from = start + 1
    this.#value = ''
  }

  /** Returns undefined while the string goes on. */
  readPiece(): ReadString | undefined {
    const from = this.#from ?? 0
    const keepsMore = this.#value.length < this.#keptChars
    if (!keepsMore && this.#isPlain(from)) return this.#ended(this.#nextQuote)
    const end = this.#pieceEnd(from)
    // JSON.parse resolves the escapes, and refuses control characters.
    const piece = String(parseText(`"${this.#text.toString('utf8', from, end)}"`))
    if (keepsMore) this.#value += piece
    this.#from = end
    return this.#text[end] === quoteByte ? this.#ended(end) : undefined
  }

  /** Whether the rest of the string has no escape: then `#nextQuote` is its end. */
  #isPlain(from: number): boolean {
    this.#look(from)
    return this.#nextQuote < this.#nextBackslash && this.#nextQuote < this.#text.length
  }

  #ended(end: number): ReadString {
    const whole = { value: this.#value, end: end + 1 }
    this.#from = undefined
    this.#value = ''
    return whole
  }

  /** Searches again only when the last found position was passed: otherwise each short string would search all of a long text. */
  #look(from: number): void {
    if (this.#nextQuote < from) this.#nextQuote = indexOf(this.#text, quoteByte, from)
    if (this.#nextBackslash < from) this.#nextBackslash = indexOf(this.#text, backslashByte, from)
  }

  /** The end of a piece: the closing quote, or a position that does not cut a character or an escape. */
  #pieceEnd(from: number): number {
    const text = this.#text
    const most = from + pieceBytes
    this.#look(from)
    // An escape comes first, and the next quote may be a part of it.
    if (this.#nextBackslash < Math.min(this.#nextQuote, most)) return this.#stepOver(most)
    if (this.#nextQuote <= most) {
      if (this.#nextQuote === text.length) throw unfinished()
      return this.#nextQuote
    }
    if (most >= text.length) throw unfinished()
    return characterBefore(text, most)
  }

  /** Goes on byte by byte from the next backslash: with escapes, the next quote may not be the end of the string. */
  #stepOver(most: number): number {
    const text = this.#text
    let i = this.#nextBackslash
    while (i < most) {
      const c = text[i]
      if (c === quoteByte) return i
      if (c === undefined) throw unfinished()
      const bytes = c === backslashByte ? escapeBytes(text, i) : 1
      if (i + bytes > most) return i
      i += bytes
    }
    return characterBefore(text, i)
  }
}

function indexOf(text: Buffer, byte: number, from: number): number {
  const found = text.indexOf(byte, from)
  return found < 0 ? text.length : found
}

function escapeBytes(text: Buffer, at: number): number {
  return text[at + 1] === uByte ? 6 : 2
}

/** `cut` itself, or the beginning of the character that lies across `cut`. */
function characterBefore(text: Buffer, cut: number): number {
  let at = cut
  while (((text[at] ?? 0) & 0xc0) === 0x80) at--
  return at
}

export function parseText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new GatewayError('invalid_json', { cause })
  }
}
