// The frames of a message's stream, as they are written and found again: `id: <message>:<seq>`, the event, a blank line.
// A text has whole frames one after the other, in latin1: a char a byte.

import { plainGrammar } from '../../chat/frames.ts'
import type { Grammar } from '../../chat/frames.ts'
import type { SseEvent } from '../../exchange.ts'

/** Gives each frame an id, after which a reader can go on. */
export class Numbered implements Grammar {
  readonly #message: string
  #next: number

  constructor(message: string, next = 0) {
    this.#message = message
    this.#next = next
  }

  /** The number that the next frame gets. */
  get next(): number {
    return this.#next
  }

  frame(event: SseEvent): string {
    return `id: ${this.#message}:${this.#next++}\n${plainGrammar.frame(event)}`
  }
}

/** Index where the frame `seq` begins; undefined when the text does not have this frame. */
export function frameStart(
  text: string | Buffer,
  message: string,
  seq: number,
): number | undefined {
  const mark = `id: ${message}:${seq}\n`
  if (text.indexOf(mark) === 0) return 0
  const blank = text.indexOf(`\n\n${mark}`)
  return blank < 0 ? undefined : blank + 2
}

/** The first frame that begins after `index`; undefined when there is none. */
export function frameBehind(
  text: string,
  message: string,
  index: number,
): { readonly start: number; readonly seq: number } | undefined {
  const mark = `\n\nid: ${message}:`
  const blank = text.indexOf(mark, index)
  if (blank < 0) return undefined
  const digits = blank + mark.length
  return { start: blank + 2, seq: Number.parseInt(text.slice(digits, digits + 16), 10) }
}

/** The data values of the frames, in order. */
export function* framesToData(frames: string): Generator<string, void> {
  let data: string | undefined
  for (let from = 0; from < frames.length;) {
    const found = frames.indexOf('\n', from)
    const end = found < 0 ? frames.length : found
    if (end === from) {
      if (data !== undefined) yield data
      data = undefined
    } else if (frames.startsWith('data: ', from)) {
      const line = frames.slice(from + 'data: '.length, end)
      data = data === undefined ? line : `${data}\n${line}`
    }
    from = end + 1
  }
}
