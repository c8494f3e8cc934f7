// What a model generated, kept compactly for counting: the JSON-escaped pieces as they came, at most 64 KiB of them;
// more are counted in slices and released. Token ids and sound have no text, and are counted as they come.

import type { Chunk } from './chunk.ts'

/** Counts tokens of decoded text; in the gateway this is countText in tokens/count-pieces.ts. */
export type Count = (text: string) => Promise<number>

/** Bytes of base64. A token is at least 50 ms of sound. */
const spokenBytesPerToken = 200
const keptChars = 64 * 1024
/** A rope of slices keeps every chunk that they came from in memory; a flat string of this length, joined from them, does not. */
const flatChars = 1024
/** So many slices may wait for the tokenizer; when a backend is faster than the tokenizer, further slices are estimated. */
const waitingSlices = 4

/** More is not believed, and a backend that generates more is stopped. */
export const runawayAt = (maxTokens: number): number => 2 * maxTokens + 64

export class Generated {
  readonly #count: Count
  #recent = ''
  #flat: string[] = []
  #flatChars = 0
  /** Code points, not bytes and not escapes. */
  #chars = 0
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
    this.#recent += piece
    if (this.#recent.length < flatChars) return
    this.#recent.charCodeAt(0)
    this.#flat.push(this.#recent)
    this.#flatChars += this.#recent.length
    this.#recent = ''
    if (this.#flatChars >= keptChars) this.#letGo()
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

  /** Four characters a token. */
  get roughTokens(): number {
    return this.#all(Math.ceil(this.#chars / 4))
  }

  /** A piece of sound is a token at least. */
  #all(textTokens: number): number {
    const audio = Math.max(this.#audioEvents, Math.ceil(this.#audioBytes / spokenBytesPerToken))
    return Math.max(textTokens, this.#idsBeside) + this.#idsAlone + audio
  }

  #letGo(): void {
    const escaped = this.#flat.join('') + this.#recent
    this.#flat = []
    this.#flatChars = 0
    this.#recent = ''
    if (escaped === '') return
    // By its bytes: few languages have more tokens.
    const rough = Math.ceil(escaped.length / 4)
    if (this.#waiting >= waitingSlices) {
      this.#counted += rough
      return
    }
    this.#waiting++
    this.#counting = this.#counting.then(async () => {
      this.#counted += await this.#count(decoded(escaped)).catch(() => rough)
      this.#waiting--
    })
  }
}

/** The code points of JSON-escaped UTF-8 in latin1: an escape counts as one, continuation bytes do not count. */
function codePoints(piece: string): number {
  let count = 0
  for (let i = 0; i < piece.length; i++) {
    const code = piece.charCodeAt(i)
    if (code === 0x5c) i += piece[i + 1] === 'u' ? 5 : 1
    if (code < 0x80 || code > 0xbf) count++
  }
  return count
}

function decoded(escaped: string): string {
  const text = Buffer.from(escaped, 'latin1').toString()
  try {
    return JSON.parse(`"${text}"`) as string
  } catch {
    return text
  }
}
