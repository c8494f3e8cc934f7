// The chunks of a stream are mostly alike but for their one text. What stands before and behind that text is remembered: the
// next chunk is recognised by two comparisons, in 0.1 µs, and is not parsed.

import type { Chunk } from './chunk.ts'

export class Pattern {
  #before = ''
  #behind = ''

  /** The one text of a chunk that is otherwise like the one learnt, as it is escaped; undefined for any other chunk. */
  textOf(data: string): string | undefined {
    const from = this.#before.length
    const to = data.length - this.#behind.length
    if (from === 0 || to < from) return undefined
    if (!data.endsWith(this.#behind) || !data.startsWith(this.#before)) return undefined
    // The text ends where the rest begins: an unescaped quote in it would be another key.
    return quoteIn(data, from) === to ? data.slice(from, to) : undefined
  }

  /** Of a chunk that was read: one with a single text and nothing else that counts is what others may be like. */
  learn(data: string, chunk: Chunk): void {
    const { texts, textStart, textEnd, ids, audioBytes, usage, choices } = chunk
    const isPlain = texts === 1 && ids === 0 && audioBytes === 0 && !usage
    if (!isPlain || choices.length !== 1 || choices[0]?.isFinished) return
    this.#before = data.slice(0, textStart)
    this.#behind = data.slice(textEnd)
  }
}

/** The first one that is not escaped; the end of the data where there is none. */
function quoteIn(data: string, from: number): number {
  for (let quote = data.indexOf('"', from); quote >= 0; quote = data.indexOf('"', quote + 1)) {
    let slashes = 0
    while (quote - slashes > from && data[quote - slashes - 1] === '\\') slashes++
    if (slashes % 2 === 0) return quote
  }
  return data.length
}
