// The newest frames of a message in this process' memory: fed by the backend, or from Redis, and read by any number of
// readers, each at its own place. Keeps little: frames that Redis has are dropped. Never waits for a reader.

import { FrameBytes } from './frame-bytes.ts'
import type { BytePiece } from './frame-bytes.ts'

export interface Piece {
  /** Frames, latin1; '' where there are none yet. */
  readonly text: string
  /** Seq after the last of the frames. */
  readonly next: number
}

/** Bytes that stay for readers that are a little behind, even when Redis has them. */
export const mostTailBytes = 16 * 1024
/** Frames are not dropped before there is more to drop than this. */
const droppedBytes = 1024

export class FrameLog {
  readonly message: string
  readonly #maxBytes: number
  readonly #listeners = new Set<() => void>()
  readonly #frames: FrameBytes
  /** What readers are being told of: nearly all of them go on with just this. */
  #newest: Piece | undefined
  #newestFirst = 0
  #next: number
  #isEnded = false
  #isLost = false
  #isBroken = false

  /** `next`: seq of the first frame that will be added. Beyond `maxBytes`, the oldest frames are dropped; the newest one stays, even if it is larger. */
  constructor(message: string, { next, maxBytes }: { next: number; maxBytes: number }) {
    this.message = message
    this.#next = next
    this.#maxBytes = maxBytes
    this.#frames = new FrameBytes(message, next)
  }

  /** Seq of the oldest frame that is here. */
  get first(): number {
    return this.#frames.first
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
    this.hold(text, next)
    this.show(text, next)
  }

  /** Adds frames that readers do not get before `show`. */
  hold(text: string, next: number): void {
    this.#frames.add(text, next)
    this.#frames.drop(this.#maxBytes)
  }

  /** Readers get the frames up to before `next`; `text` has all that they have not been given. */
  show(text: string, next: number): void {
    this.#newest = { text, next }
    this.#newestFirst = this.#next
    this.#next = next
    this.#tell()
    this.#newest = undefined
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

  /** Redis has the frames before `seq`: drops them, except for the last `tailBytes` of the log, once it is worth the search. */
  stored(seq: number, tailBytes = mostTailBytes): void {
    if (this.#frames.size > tailBytes + droppedBytes) this.#frames.drop(tailBytes, seq)
  }

  /** Frames from `seq` on: at least `enough` bytes, if there are so many. Undefined when the frame `seq` is no longer here. */
  from(seq: number, enough = Infinity): Piece | undefined {
    if (seq >= this.#next) return { text: '', next: seq }
    if (this.#newest && seq === this.#newestFirst) return this.#newest
    const piece = this.#frames.from(seq, { enough, until: this.#next })
    return piece && { text: piece.bytes.toString('latin1'), next: piece.next }
  }

  /** The same as bytes, with frames that readers do not get yet: a view, good until the log changes. */
  bytes(seq: number, enough = Infinity): BytePiece | undefined {
    return this.#frames.from(seq, { enough })
  }

  /** Called when something was added, at the end, and when it breaks. */
  listen(listener: () => void): void {
    this.#listeners.add(listener)
  }

  unlisten(listener: () => void): void {
    this.#listeners.delete(listener)
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }
}
