// What a model generated, kept compactly for counting: the JSON-escaped pieces as they came, at most 64 KiB of them;
// beyond that they are counted in slices and let go. Finds those pieces by byte search: an unescaped quote cannot stand
// inside a JSON string, so `"content":` is a key wherever it occurs. Parses nothing.

/** Counts tokens of decoded text; ledger/count.ts in the gateway. */
export type Count = (text: string) => Promise<number>

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
  #chars = 0
  #waiting = 0
  #counted = 0
  #counting: Promise<void> = Promise.resolve()

  constructor(count: Count) {
    this.#count = count
  }

  /** Code points, not bytes and not escapes. */
  get chars(): number {
    return this.#chars
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

  /** All that was added up to now, by the tokenizer. Never rejects: what cannot be counted is estimated. */
  async tokens(): Promise<number> {
    this.#letGo()
    await this.#counting
    return this.#counted
  }

  #letGo(): void {
    const escaped = this.#flat.join('') + this.#recent
    this.#flat = []
    this.#flatChars = 0
    this.#recent = ''
    if (escaped === '') return
    const rough = Math.ceil(codePoints(escaped) / 4)
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

const valueKey = /"(content|reasoning_content|reasoning|text|refusal|arguments|name)"\s*:\s*"/g

/** Calls `found` with each non-empty generated string in a chunk or an answer; true if there was one. */
export function findGenerated(data: string, found: (piece: string) => void): boolean {
  let lastKey = ''
  let lastPiece = ''
  valueKey.lastIndex = 0
  for (let match = valueKey.exec(data); match; match = valueKey.exec(data)) {
    const start = valueKey.lastIndex
    const end = stringEnd(data, start)
    valueKey.lastIndex = end
    const piece = data.slice(start, end)
    const key = match[1] ?? ''
    // Some servers send one thought twice, as `reasoning` and as `reasoning_content`.
    const again = piece === lastPiece && key !== lastKey && key.startsWith('reasoning')
    // A name is generated where it is that of a function.
    if (key === 'name' && !data.includes('"function"')) continue
    if (piece !== '' && !again) found(piece)
    lastKey = key
    lastPiece = piece || lastPiece
  }
  return lastPiece !== ''
}

/** Of the closing quote; the end of the data where there is none. */
function stringEnd(data: string, start: number): number {
  for (let quote = data.indexOf('"', start); quote >= 0; quote = data.indexOf('"', quote + 1)) {
    let slashes = 0
    while (quote - slashes > start && data[quote - slashes - 1] === '\\') slashes++
    if (slashes % 2 === 0) return quote
  }
  return data.length
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
