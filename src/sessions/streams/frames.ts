// The frames of a message's stream, as they are written and found again: `id: <message>:<seq>`, the event, a blank line.
// A text has whole frames one after the other, in latin1: a char a byte. `FrameLog` has the newest frames in this process'
// memory: fed by the backend, or from Redis, and read by any number of readers, each at its own place.

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
  const idLine = `id: ${message}:${seq}\n`
  if (text.indexOf(idLine) === 0) return 0
  const blank = text.indexOf(`\n\n${idLine}`)
  return blank < 0 ? undefined : blank + 2
}

/** The first frame that begins after `index`; undefined when there is none. */
export function frameAfter(
  text: string,
  message: string,
  index: number,
): { readonly start: number; readonly seq: number } | undefined {
  const beginning = `\n\nid: ${message}:`
  const blank = text.indexOf(beginning, index)
  if (blank < 0) return undefined
  const digits = blank + beginning.length
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

export interface Piece {
  /** Frames, latin1; '' where there are none yet. */
  readonly text: string
  /** Seq after the last of the frames. */
  readonly next: number
}

interface KeptPiece extends Piece {
  readonly first: number
}

/** Bytes that stay for readers that are a little behind, even when Redis has them. */
const tailBytes = 16 * 1024

/** Keeps little: frames that Redis has are dropped. Never waits for a reader. */
export class FrameLog {
  readonly message: string
  readonly #maxBytes: number
  readonly #listeners = new Set<() => void>()
  #pieces: KeptPiece[] = []
  #bytes = 0
  #next: number
  #isEnded = false
  #isLost = false
  #isBroken = false

  /** `next`: seq of the first frame that will be added. Beyond `maxBytes`, the oldest pieces are dropped; the newest one stays, even if it is larger. */
  constructor(message: string, { next, maxBytes }: { next: number; maxBytes: number }) {
    this.message = message
    this.#next = next
    this.#maxBytes = maxBytes
  }

  /** Seq of the oldest frame that is here. */
  get first(): number {
    return this.#pieces[0]?.first ?? this.#next
  }

  /** Seq that the next frame has. */
  get next(): number {
    return this.#next
  }

  /** True when the stream has its terminal: nothing more will be added. */
  get isEnded(): boolean {
    return this.#isEnded
  }

  /** True when another gateway wrote the terminal: a reader may have had another frame of this number from the owner. */
  get isLost(): boolean {
    return this.#isLost
  }

  /** Nothing more comes, and the end is unknown: readers are cut off, and may ask again. */
  get isBroken(): boolean {
    return this.#isBroken
  }

  /** Adds whole frames; the last one is the frame before `next`. */
  add(text: string, next: number): void {
    this.#pieces.push({ text: flat(text), first: this.#next, next })
    this.#bytes += text.length
    this.#next = next
    while (this.#bytes > this.#maxBytes && this.#pieces.length > 1) this.#drop()
    this.#tell()
  }

  end({ isLost = false } = {}): void {
    this.#isLost = isLost
    this.#isEnded = true
    this.#tell()
  }

  break(): void {
    this.#isBroken = true
    this.#tell()
  }

  /** Redis has the frames before `seq`: drops them, except the tail. */
  stored(seq: number): void {
    for (;;) {
      const [oldest] = this.#pieces
      const isStored = oldest !== undefined && oldest.next <= seq
      if (!isStored) return
      const bytesAfter = this.#bytes - oldest.text.length
      if (bytesAfter < tailBytes) return
      this.#drop()
    }
  }

  /** Frames from `seq` on: at least `enough` bytes, if there are so many. Undefined when the frame `seq` is no longer here. */
  from(seq: number, enough = Infinity): Piece | undefined {
    if (seq >= this.#next) return { text: '', next: seq }
    if (seq < this.first) return undefined
    // From the end, because most readers are close to it.
    let at = this.#pieces.length - 1
    while ((this.#pieces[at]?.first ?? seq) > seq) at--
    const piece = this.#pieces[at]
    if (!piece) return undefined
    let { text, next } = piece
    if (piece.first < seq) text = text.slice(frameStart(text, this.message, seq))
    for (let i = at + 1; i < this.#pieces.length && text.length < enough; i++) {
      text += this.#pieces[i]?.text ?? ''
      next = this.#pieces[i]?.next ?? next
    }
    return { text, next }
  }

  /** Called when something was added, at the end, and when it breaks. */
  listen(listener: () => void): void {
    this.#listeners.add(listener)
  }

  unlisten(listener: () => void): void {
    this.#listeners.delete(listener)
  }

  #drop(): void {
    this.#bytes -= this.#pieces.shift()?.text.length ?? 0
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }
}

/** Copies the text: a slice would keep the whole string alive that it was cut from, about twice its own bytes. */
function flat(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
