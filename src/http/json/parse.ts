// Reads a JSON object of any size into values, in steps of a tenth of a millisecond: the caller can do other work
// between two steps. One pass, no recursion. Refuses what JSON.parse refuses, and also what is only expensive: too many
// values, too many members at the top, keys and numbers of kilobytes, deep nesting. If an object below the top has a
// key twice, the last value counts.

import { isUtf8 } from 'node:buffer'
import type { GatewayError } from '../../errors.ts'
import { isSpace } from './tokens.ts'
import { isPlain, maxDepth, skipSpace, tooDeep, unfinished } from './skip.ts'
import { StringReader } from './string.ts'
import { brokenJson, invalidJson } from '../refusals.ts'

/** Where a top-level member lies. */
export interface Member {
  /** The position of the key's first quote. */
  readonly keyStart: number
  readonly valueStart: number
  readonly valueEnd: number
  /** The number of keys of all objects in the value, as written. If the parsed value has fewer, a key was there twice. */
  readonly keys: number
}

export interface ParsedObject {
  /** By unescaped key, in the order of the body. */
  readonly members: ReadonlyMap<string, Member>
  readonly values: Readonly<Record<string, unknown>>
  /** The characters of all texts in the values. */
  readonly chars: number
  /** The number of all members and entries, without whole numbers in lists. */
  readonly items: number
}

export interface JsonParseOptions {
  /** Of a text over 64 KiB only the beginning is kept, at least this many characters: enough to validate it. */
  readonly keptChars?: number
}

/** Chat Completions has 40 parameters, and servers add as many again. */
export const maxMembers = 256
/** Members of objects and entries of lists. A conversation of 5000 messages with calls of tools has 60,000. */
export const maxItems = 100_000
/** Whole numbers in lists: token ids take a tenth of the memory. OpenAI accepts 300,000 in an embeddings request. */
export const maxIds = 1_000_000
/** The longest key or number: each is read in one step. */
const maxWordBytes = 4096
const utf8StepBytes = 1024 * 1024
const stepTokens = 128

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const openBracket = 0x5b
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

type Container =
  | { readonly list: unknown[]; readonly object?: undefined }
  | { readonly object: Record<string, unknown>; readonly list?: undefined; key: string }

/** What the grammar expects next. `first` is after an opening bracket, `next` is after a value. */
type Expected = 'body' | 'first' | 'key' | 'colon' | 'value' | 'next' | 'end'

export class JsonParse {
  readonly #text: Buffer
  readonly #strings: StringReader
  /** How many bytes were checked to be UTF-8. */
  #checked = 0
  /** Where the next token begins. */
  #at = 0
  #due: Expected = 'body'
  /** Innermost last; the body's own object is one level. */
  readonly #open: Container[] = []
  readonly #top: Record<string, unknown> = {}
  readonly #members = new Map<string, Member>()
  #keyStart = 0
  #valueStart = 0
  #keys = 0
  #items = 0
  #ids = 0
  #chars = 0

  constructor(text: Buffer, { keptChars = Infinity }: JsonParseOptions = {}) {
    this.#text = text
    this.#strings = new StringReader(text, keptChars)
  }

  /** Does one step. Returns undefined while there is more to do. Throws `invalid_json`. */
  step(): ParsedObject | undefined {
    if (this.#checked < this.#text.length) return this.#checkUtf8()
    if (this.#strings.isWithin) return this.#readString()
    for (let i = 0; i < stepTokens; i++) {
      this.#at = skipSpace(this.#text, this.#at)
      // skipSpace stops after 64 KiB: megabytes of white space are skipped in several steps.
      if (isSpace(this.#text[this.#at])) break
      if (this.#at === this.#text.length && this.#due === 'end') {
        return { members: this.#members, values: this.#top, chars: this.#chars, items: this.#items }
      }
      this.#token()
      if (this.#strings.isWithin) break
    }
    return undefined
  }

  #checkUtf8(): undefined {
    const text = this.#text
    const from = this.#checked
    let to = Math.min(from + utf8StepBytes, text.length)
    // A character that lies across `to` is left for the next step.
    for (let cut = 0; cut < 3 && ((text[to] ?? 0) & 0xc0) === 0x80; cut++) to--
    if (!isUtf8(text.subarray(from, to))) throw invalidJson('The body is not valid UTF-8.')
    this.#checked = to
  }

  #token(): void {
    const c = this.#text[this.#at]
    switch (this.#due) {
      case 'value':
        return this.#value(c)
      case 'next':
        return this.#next(c)
      case 'first':
        return this.#first(c)
      case 'key':
        return this.#key(c)
      case 'colon':
        return this.#pass(c, { expected: colon, due: 'value' })
      case 'body':
        if (c === 0xef)
          throw invalidJson('The body begins with a byte order mark. Send it without.')
        if (c !== openBrace) throw invalidJson('The body is not a JSON object.')
        return this.#enter({ object: this.#top, key: '' })
      case 'end':
        throw invalidJson('Something follows the JSON object.')
    }
  }

  #pass(c: number | undefined, { expected, due }: { expected: number; due: Expected }): void {
    if (c !== expected) throw this.#broken()
    this.#at++
    this.#due = due
  }

  #first(c: number | undefined): void {
    const isList = this.#open.at(-1)?.list !== undefined
    if (c === (isList ? closeBracket : closeBrace)) return this.#leave()
    this.#due = isList ? 'value' : 'key'
  }

  #next(c: number | undefined): void {
    const isList = this.#open.at(-1)?.list !== undefined
    if (c === comma) return this.#pass(c, { expected: comma, due: isList ? 'value' : 'key' })
    if (c !== (isList ? closeBracket : closeBrace)) throw this.#broken()
    this.#leave()
  }

  #key(c: number | undefined): void {
    const container = this.#open.at(-1)
    if (c !== quote || !container?.object) throw this.#broken()
    this.#keyStart = this.#open.length === 1 ? this.#at : this.#keyStart
    const { value, end } = this.#strings.readWhole(this.#at, maxWordBytes)
    container.key = value
    this.#at = end
    this.#due = 'colon'
    if (this.#open.length > 1) {
      this.#keys++
      return
    }
    if (this.#members.has(value)) throw memberTwice(value)
    if (this.#members.size === maxMembers) throw tooManyMembers()
  }

  #value(c: number | undefined): void {
    if (this.#open.length === 1) this.#valueStart = this.#at
    if (c === openBrace) return this.#enterWith({ object: {}, key: '' })
    if (c === openBracket) return this.#enterWith({ list: [] })
    if (c !== quote) return this.#ended(this.#word())
    const short = this.#strings.readShort(this.#at)
    if (short === undefined) return this.#strings.begin(this.#at)
    this.#at = short.end
    this.#ended(short.value)
  }

  #readString(): undefined {
    const whole = this.#strings.readPiece()
    if (!whole) return
    this.#at = whole.end
    this.#ended(whole.value)
  }

  #enterWith(container: Container): void {
    this.#put(container.list ?? container.object)
    this.#enter(container)
  }

  #enter(container: Container): void {
    if (this.#open.length === maxDepth) throw tooDeep()
    this.#open.push(container)
    this.#at++
    this.#due = 'first'
  }

  #leave(): void {
    this.#open.pop()
    this.#at++
    this.#behind()
  }

  /** Called when `#at` is just after a value. */
  #ended(value: unknown): void {
    this.#put(value)
    this.#behind()
  }

  #behind(): void {
    this.#due = this.#open.length === 0 ? 'end' : 'next'
    const [top] = this.#open
    if (this.#open.length !== 1 || !top?.object) return
    this.#members.set(top.key, {
      keyStart: this.#keyStart,
      valueStart: this.#valueStart,
      valueEnd: this.#at,
      keys: this.#keys,
    })
    this.#keys = 0
  }

  #put(value: unknown): void {
    if (typeof value === 'string') this.#chars += value.length
    const container = this.#open.at(-1)
    if (container?.list) {
      this.#count(Number.isInteger(value))
      container.list.push(value)
    } else if (container) {
      this.#count(false)
      setOwn(container.object, container.key, value)
    }
  }

  #count(isId: boolean): void {
    if (isId ? ++this.#ids > maxIds : ++this.#items > maxItems) {
      const what = isId ? `${maxIds} whole numbers in lists` : `${maxItems} values`
      throw invalidJson(`The body has more than ${what}. Send it in several requests.`)
    }
  }

  /** A number, true, false or null. */
  #word(): unknown {
    const text = this.#text
    const from = this.#at
    const most = from + maxWordBytes
    let i = from
    let whole = 0
    for (; isDigit(text[i]) && i < most; i++) whole = whole * 10 + (text[i] ?? 0) - 0x30
    const isWhole = !isPlain(text[i]) && i > from && i - from <= 15
    if (isWhole && (text[from] !== 0x30 || i === from + 1)) {
      this.#at = i
      return whole
    }
    while (isPlain(text[i]) && i < most) i++
    if (i === most) throw invalidJson(`A number in the body is longer than ${maxWordBytes} bytes.`)
    const word = text.toString('latin1', from, i)
    if (!(words.has(word) || numberForm.test(word))) throw this.#broken()
    this.#at = i
    return words.has(word) ? words.get(word) : Number(word)
  }

  #broken(): GatewayError {
    return this.#at < this.#text.length ? brokenJson(this.#at) : unfinished()
  }
}

const words = new Map<string, boolean | null>([
  ['true', true],
  ['false', false],
  ['null', null],
])
const numberForm = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

function isDigit(c: number | undefined): boolean {
  return c !== undefined && c >= 0x30 && c <= 0x39
}

/** Like JSON.parse, sets an own property, whatever its name is. */
function setOwn(object: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== '__proto__') object[key] = value
  else {
    const own = { value, enumerable: true, configurable: true, writable: true }
    Object.defineProperty(object, key, own)
  }
}

export function memberTwice(key: string): GatewayError {
  return invalidJson(`The key ${JSON.stringify(key)} stands twice in the body.`)
}

export function tooManyMembers(): GatewayError {
  return invalidJson(`The body has more than ${maxMembers} members. No request needs as many.`)
}
