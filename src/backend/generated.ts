// What a model generated, kept compactly for counting: the JSON-escaped pieces as they came, at most 64 KiB of them;
// beyond that they are counted in slices and let go. Token ids and sound have no text, and are counted as they come.

import type { Chunk } from './chunk.ts'

/** Counts tokens of decoded text; tokens/count.ts in the gateway. */
export type Count = (text: string) => Promise<number>

/** Of base64. A token is 50 ms of sound and more. */
const spokenBytesPerToken = 200
const keptChars = 64 * 1024
/** Ropes of slices hold on to every chunk they came from: joined to flat strings of this length they don't. */
const flatChars = 1024
/** Slices that wait for the tokenizer; a backend that is faster than it has further ones estimated. */
const waitingSlices = 4

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
  /** Ids beside texts say the same again; those without say what no text does. */
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

  /** Of one event. */
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

/** Of JSON-escaped UTF-8 in latin1: an escape is one, continuation bytes are none. */
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
