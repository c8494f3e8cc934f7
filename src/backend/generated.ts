// What a model generated, kept compactly for counting: the JSON-escaped pieces as they came, at most 64 KiB of them;
// more are counted in slices and released. Samples are counted where an estimate will do. Token ids and sound have no
// text, and are counted as they come.

import type { Chunk } from './chunk.ts'
import { FlatText } from './flat-text.ts'

/** Counts tokens of decoded text; in the gateway this is countText in tokens/count-pieces.ts. */
export type Count = (text: string) => Promise<number>

/** Tells whoever pays for the output when it has reached a size. */
export interface Alarm {
  /** Rough tokens; may be changed at any time. */
  at: number
  /** Called in `event` when `roughTokens` is `at` or more, at each event that is taken, until `at` is raised. */
  reached(): void
}

/** Bytes of base64. A token is at least 50 ms of sound. */
const spokenBytesPerToken = 200
const keptChars = 64 * 1024
/**
 * The longest sample: this much of the newest text stands for all that came since the last sample. It is about 250
 * tokens, which the tokenizer counts in one turn, in 0.3 ms. This much text is kept, except just after text was
 * released.
 */
const sampleLength = 1000
/**
 * The shortest sample. A sample may begin in the middle of a word, which adds a token: a large error in a few words.
 * Where less text is new, the sample begins in text that was counted before, if that is still kept.
 */
const leastSample = 256
/** A sample is taken when the text has grown by this part of it. */
const growth = 1 / 8
/**
 * At most this many slices wait for the tokenizer; when a backend is faster than that, further slices are estimated.
 */
const waitingSlices = 4

export class Generated {
  readonly #count: Count
  #kept = new FlatText()
  /** Code points, not bytes and not escapes. */
  #chars = 0
  /** As it came, bytes and escapes. */
  #length = 0
  #countedLength = 0
  /** The estimate for checkpoints: `#gaugedTokens` up to `#gaugedLength`, then `#density` for each further byte. */
  #gaugedLength = 0
  #gaugedTokens = 0
  #density = 1 / 4
  #waiting = 0
  #counted = 0
  #counting: Promise<void> = Promise.resolve()
  /** Token ids beside texts repeat the texts; ids without texts stand for output that no text has. */
  #idsBeside = 0
  #idsAlone = 0
  #audioBytes = 0
  #audioEvents = 0

  constructor(count: Count) {
    this.#count = count
  }

  add(piece: string): void {
    this.#chars += codePoints(piece)
    this.#length += piece.length
    this.#kept.add(piece)
    if (this.#kept.length >= keptChars) this.#letGo()
  }

  /** Adds the token ids and the sound of one event. */
  addOthers({ ids, audioBytes, texts }: Pick<Chunk, 'ids' | 'audioBytes' | 'texts'>): void {
    if (texts > 0) this.#idsBeside += ids
    else this.#idsAlone += ids
    this.#audioBytes += audioBytes
    if (audioBytes > 0) this.#audioEvents++
  }

  /** All that was added up to now, by the tokenizer. Never rejects: what cannot be counted is estimated. */
  async tokens(): Promise<number> {
    this.#letGo()
    await this.#counting
    return this.#all(this.#counted)
  }

  /** Counts a sample of what came since the last one, or all of a short text, unless little came. Never rejects. */
  async gauge(): Promise<void> {
    const length = this.#length
    const fresh = length - this.#gaugedLength
    const isLittle = fresh <= this.#gaugedLength * growth
    const wanted = Math.min(Math.max(fresh, leastSample), sampleLength)
    const sample = isLittle ? '' : this.#newest(wanted)
    if (sample === '') return
    const tokens = await this.#count(decoded(sample)).catch(() => undefined)
    // Meanwhile all of the text may have been counted.
    if (tokens === undefined || length <= this.#gaugedLength) return
    this.#density = tokens / sample.length
    const isWhole = sample.length === length
    if (isWhole) this.#gaugedTokens = tokens
    else this.#gaugedTokens += this.#density * (length - this.#gaugedLength)
    this.#gaugedLength = length
  }

  /** By what was counted, and what was sampled since. */
  get gaugedTokens(): number {
    const since = (this.#length - this.#gaugedLength) * this.#density
    return this.#all(Math.ceil(this.#gaugedTokens + since))
  }

  /** Four characters a token. */
  get roughTokens(): number {
    return this.#all(Math.ceil(this.#chars / 4))
  }

  /** A piece of sound is a token at least. */
  #all(textTokens: number): number {
    const audio = Math.max(this.#audioEvents, Math.ceil(this.#audioBytes / spokenBytesPerToken))
    return Math.max(textTokens, this.#idsBeside) + this.#idsAlone + audio
  }

  /**
   * The end of the text that is still kept. Does not begin in the middle of a character or of a simple escape: either
   * would count as several tokens.
   */
  #newest(length: number): string {
    const kept = this.#kept.newest
    let from = Math.max(0, kept.length - length)
    while (isContinuation(kept.charCodeAt(from))) from++
    if (from > 0 && kept[from - 1] === '\\') from--
    return kept.slice(from)
  }

  #letGo(): void {
    const escaped = this.#kept.toString()
    this.#kept = new FlatText()
    if (escaped === '') return
    // A token for each four bytes: in few languages are there more.
    const rough = Math.ceil(escaped.length / 4)
    if (this.#waiting >= waitingSlices) return this.#counts(escaped, rough)
    this.#waiting++
    this.#counting = this.#counting.then(async () => {
      this.#counts(escaped, await this.#count(decoded(escaped)).catch(() => rough))
      this.#waiting--
    })
  }

  #counts({ length }: string, tokens: number): void {
    this.#counted += tokens
    this.#countedLength += length
    if (this.#countedLength < this.#gaugedLength) return
    this.#gaugedLength = this.#countedLength
    this.#gaugedTokens = this.#counted
    // A few words say little of the next ones.
    const isShort = length < sampleLength
    this.#density = isShort ? this.#counted / this.#countedLength : tokens / length
  }
}

/** The code points of JSON-escaped UTF-8 in latin1: an escape counts as one, continuation bytes do not count. */
function codePoints(piece: string): number {
  let count = 0
  for (let i = 0; i < piece.length; i++) {
    const code = piece.charCodeAt(i)
    if (code === 0x5c) i += piece[i + 1] === 'u' ? 5 : 1
    if (!isContinuation(code)) count++
  }
  return count
}

/** Not the first byte of a character. */
const isContinuation = (code: number): boolean => code >= 0x80 && code <= 0xbf

function decoded(escaped: string): string {
  const text = Buffer.from(escaped, 'latin1').toString()
  try {
    return JSON.parse(`"${text}"`) as string
  } catch {
    return text
  }
}
