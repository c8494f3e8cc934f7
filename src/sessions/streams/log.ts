// The end of a message's stream in this process' memory: fed by its owner's backend, or from Redis, and read by any number
// of readers, each at its own place. Keeps little: what has been stored elsewhere goes. Waits for nobody.

import { startOf } from './frames.ts'

export interface Piece {
  /** Frames, latin1; '' where there are none yet. */
  readonly text: string
  /** Seq behind the last of them. */
  readonly next: number
}

interface KeptPiece extends Piece {
  readonly first: number
}

/** So much stays for readers who are a little behind, also when it is stored. */
const tailBytes = 16 * 1024

export class FrameLog {
  readonly message: string
  readonly #maxBytes: number
  readonly #listeners = new Set<() => void>()
  #chunks: KeptPiece[] = []
  #bytes = 0
  #next: number
  #isEnded = false
  #isLost = false
  #isBroken = false

  /** `next`: seq of the first frame that will be added. More than `maxBytes` is never kept. */
  constructor(message: string, { next, maxBytes }: { next: number; maxBytes: number }) {
    this.message = message
    this.#next = next
    this.#maxBytes = maxBytes
  }

  /** Seq of the oldest frame that is here. */
  get first(): number {
    return this.#chunks[0]?.first ?? this.#next
  }

  /** Seq that the next frame has. */
  get next(): number {
    return this.#next
  }

  /** The terminal is in. */
  get isEnded(): boolean {
    return this.#isEnded
  }

  /** Its owner is gone, and the terminal another's: its number may be that of a frame which a reader had from the owner. */
  get isLost(): boolean {
    return this.#isLost
  }

  /** Nothing more comes, and the end is unknown: readers are cut off, and may ask again. */
  get isBroken(): boolean {
    return this.#isBroken
  }

  /** Whole frames up to the one before `next`. */
  add(text: string, next: number): void {
    this.#chunks.push({ text: flat(text), first: this.#next, next })
    this.#bytes += text.length
    this.#next = next
    while (this.#bytes > this.#maxBytes && this.#chunks.length > 1) this.#drop()
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

  /** Frames before `seq` are stored: all but the tail may go. */
  stored(seq: number): void {
    for (;;) {
      const [oldest] = this.#chunks
      if (!oldest || oldest.next > seq || this.#bytes - oldest.text.length < tailBytes) return
      this.#drop()
    }
  }

  /** Frames from `seq` on that are here, `enough` bytes or a chunk more; undefined where the first of them is no longer. */
  from(seq: number, enough = Infinity): Piece | undefined {
    if (seq >= this.#next) return { text: '', next: seq }
    let at = this.#chunks.length
    while (at > 0 && (this.#chunks[at]?.first ?? Infinity) > seq) at--
    const chunk = this.#chunks[at]
    if (!chunk || chunk.first > seq) return undefined
    let text = chunk.text
    if (chunk.first < seq) text = text.slice(startOf(text, this.message, seq))
    let { next } = chunk
    for (let i = at + 1; i < this.#chunks.length && text.length < enough; i++) {
      text += this.#chunks[i]?.text ?? ''
      next = this.#chunks[i]?.next ?? next
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
    this.#bytes -= this.#chunks.shift()?.text.length ?? 0
  }

  #tell(): void {
    for (const listener of this.#listeners) listener()
  }
}

/** A rope's pieces keep whatever they were cut from: twice the memory of its bytes. */
function flat(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1')
}
