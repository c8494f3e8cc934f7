// Most chunks of a stream differ only in their one text. What stands before and after that text is remembered: the next
// chunk is recognised by two comparisons, in 0.1 µs, and is not parsed.

import type { Chunk } from './chunk.ts'

export class Pattern {
  #before = ''
  #behind = ''

  /**
   * The one text of a chunk that otherwise equals the learnt one, still JSON-escaped; undefined for any other chunk.
   */
  textOf(data: string): string | undefined {
    const from = this.#before.length
    const to = data.length - this.#behind.length
    if (from === 0 || to < from) return undefined
    // `startsWith` and `endsWith` take ten times as long for a string that is itself a slice, as `data` is.
    if (data.slice(to) !== this.#behind || data.slice(0, from) !== this.#before) return undefined
    // The text must end where the remembered rest begins: an unescaped quote before that would begin another key.
    return quoteIn(data, from) === to ? data.slice(from, to) : undefined
  }

  /** Remembers a chunk that was read, if it has a single text and nothing else that counts. */
  learn(data: string, chunk: Chunk): void {
    const { texts, textStart, textEnd, ids, audioBytes, usage, choices } = chunk
    const isPlain = texts === 1 && ids === 0 && audioBytes === 0 && !usage
    if (!isPlain || choices.length !== 1 || choices[0]?.isFinished) return
    this.remember(data, textStart, textEnd)
  }

  /** Remembers data of which only the text from `start` to before `end` will differ. */
  remember(data: string, start: number, end: number): void {
    this.#before = copied(data.slice(0, start))
    this.#behind = copied(data.slice(end))
  }
}

/** V8 makes a slice that keeps the whole text, which is all that one read has brought. */
const copied = (slice: string): string => Buffer.from(slice, 'latin1').toString('latin1')

/** The first quote that is not escaped; the end of the data when there is none. */
function quoteIn(data: string, from: number): number {
  for (let quote = data.indexOf('"', from); quote >= 0; quote = data.indexOf('"', quote + 1)) {
    let slashes = 0
    while (quote - slashes > from && data[quote - slashes - 1] === '\\') slashes++
    if (slashes % 2 === 0) return quote
  }
  return data.length
}
