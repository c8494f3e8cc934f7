// The newest frames of a stream as bytes, in one Buffer that grows and shrinks with them. A string for each frame would
// outlive two minor collections, and die in V8's old generation: 30 KB a stream and 4 µs an event.

import { discard } from '../../sharing/discard.ts'
import { frameAfter, frameStart, lastFrame } from './frames.ts'

export interface BytePiece {
  /** A view, good until the next change. */
  readonly bytes: Buffer
  /** Seq after the last of the frames. */
  readonly next: number
}

/** Memory is taken in multiples of this. */
const unitBytes = 2048
/** More memory than this is given back as soon as little of it is used. */
const largeBytes = 64 * 1024

const none = Buffer.alloc(0)

export class FrameBytes {
  readonly #message: string
  #memory: Buffer = none
  /** Where the frames are in the memory. */
  #start = 0
  #end = 0
  #first: number
  #next: number
  /** Where a frame begins in the memory: that behind the last piece that was given, which is asked for next. A search takes 1 µs. */
  #mark = { seq: -1, at: 0 }

  /** `next`: seq of the first frame that will be added. */
  constructor(message: string, next: number) {
    this.#message = message
    this.#first = next
    this.#next = next
  }

  /** Seq of the oldest frame; that of the next one when there is none. */
  get first(): number {
    return this.#first
  }

  get size(): number {
    return this.#end - this.#start
  }

  /** The bytes that are taken for the frames. */
  get taken(): number {
    return this.#memory.length
  }

  /** Adds whole frames, latin1; the last one is the frame before `next`. */
  add(text: string, next: number): void {
    if (this.#end + text.length > this.#memory.length) this.#fit(this.size + text.length)
    this.#end += this.#memory.write(text, this.#end, 'latin1')
    this.#next = next
  }

  /** Frames from `seq` up to before `until`: at least `enough` bytes, if there are so many, and at most a frame more. Undefined when the frame `seq` is not here. */
  from(seq: number, { enough = Infinity, until = this.#next } = {}): BytePiece | undefined {
    const start = this.#startOf(seq)
    if (start === undefined) return undefined
    const bytes = this.#held.subarray(start, this.#startOf(until) ?? this.size)
    const rest = enough < bytes.length ? frameAfter(bytes, this.#message, enough) : undefined
    const piece = rest
      ? { bytes: bytes.subarray(0, rest.start), next: rest.seq }
      : { bytes, next: until }
    this.#mark = { seq: piece.next, at: this.#start + start + piece.bytes.length }
    return piece
  }

  /** Drops the oldest frames until at most `most` bytes are left, but only frames before `before`, and never the newest one. */
  drop(most: number, before = this.#next): void {
    const excess = this.size - most
    if (excess <= 0 || before <= this.#first) return
    // A blank line ends before the frame that begins right behind the excess.
    const after = frameAfter(this.#held, this.#message, Math.max(0, excess - 2))
    const kept = after ?? lastFrame(this.#held, this.#message)
    if (!kept) return
    const isTooFar = kept.seq > before
    this.#start += isTooFar ? (this.#startOf(before) ?? 0) : kept.start
    this.#first = isTooFar ? before : kept.seq
    const isMostlyUnused = this.taken > largeBytes && this.size < this.taken / 4
    if (isMostlyUnused) this.#fit(this.size)
  }

  get #held(): Buffer {
    return this.#memory.subarray(this.#start, this.#end)
  }

  #startOf(seq: number): number | undefined {
    if (seq < this.#first || seq >= this.#next) return undefined
    if (seq === this.#first) return 0
    if (seq === this.#mark.seq) return this.#mark.at - this.#start
    return frameStart(this.#held, this.#message, seq)
  }

  /** Makes room for `bytes` in all, with half as much again: to move the frames costs as much as to add them. */
  #fit(bytes: number): void {
    const wanted = Math.ceil((bytes * 1.5) / unitBytes) * unitBytes
    const isFitting = wanted <= this.taken && wanted > this.taken / 2
    const { size } = this
    const before = this.#memory
    if (!isFitting) this.#memory = Buffer.allocUnsafeSlow(wanted)
    before.copy(this.#memory, 0, this.#start, this.#end)
    if (!isFitting) discard(before)
    this.#mark.at -= this.#start
    this.#start = 0
    this.#end = size
  }
}
