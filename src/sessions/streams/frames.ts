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

/** Index where the frame `seq` begins; undefined when the frames do not have it. */
export function frameStart(frames: Buffer, message: string, seq: number): number | undefined {
  const idLine = `id: ${message}:${seq}\n`
  if (frames.subarray(0, idLine.length).indexOf(idLine) === 0) return 0
  const blank = frames.indexOf(`\n\n${idLine}`)
  return blank < 0 ? undefined : blank + 2
}

interface Found {
  readonly start: number
  readonly seq: number
}

/** The first frame that begins after `index`; undefined when there is none. */
export function frameAfter(frames: Buffer, message: string, index: number): Found | undefined {
  const beginning = beginningOf(message)
  return found(frames, frames.indexOf(beginning, index), beginning)
}

/** The last frame, unless it is the only one. */
export function lastFrame(frames: Buffer, message: string): Found | undefined {
  const beginning = beginningOf(message)
  return found(frames, frames.lastIndexOf(beginning), beginning)
}

const beginningOf = (message: string): string => `\n\nid: ${message}:`

function found(frames: Buffer, blank: number, { length }: string): Found | undefined {
  if (blank < 0) return undefined
  const digits = frames.toString('latin1', blank + length, blank + length + 16)
  return { start: blank + 2, seq: Number.parseInt(digits, 10) }
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
