// Follows a message that another process generates, through the copy in Redis: one
// poll for all readers here, as long as there are any. When the owner is silent
// for a second, the follower checks it, and ends the message of a dead owner.

import { FrameLog } from './frame-log.ts'
import type { Lost } from './lost.ts'
import type { MessagePlace, StoredFrames, StreamRows } from './stream-rows.ts'

export interface FollowerOptions {
  readonly place: MessagePlace
  /** Seq of the first frame that is not yet stored. */
  readonly next: number
  readonly rows: StreamRows
  readonly lost: Lost
  /** Most bytes of frames in memory, for readers that are behind. */
  readonly maxBytes: number
  /** Called when the follower stops. */
  onEnd(): void
}

const pollMs = 200
/** Polls without news before the owner is checked. */
const quietPolls = 5
/** Failed polls before readers are disconnected: the readers may come back, to another instance. */
const failedPolls = 150

export class Follower {
  readonly log: FrameLog
  readonly #options: FollowerOptions
  #readers = 0
  #quiet = 0
  #failed = 0
  #isPolling = true

  constructor(options: FollowerOptions) {
    const { place, next, maxBytes } = options
    this.#options = options
    this.log = new FrameLog(place.message, { next, maxBytes })
    this.#later()
  }

  join(): void {
    this.#readers++
    // The polling may have stopped for want of readers since the caller found this follower.
    if (!this.#isPolling && !this.log.isEnded) this.#later()
  }

  leave(): void {
    this.#readers--
  }

  #later(): void {
    this.#isPolling = true
    setTimeout(() => void this.#poll(), pollMs)
  }

  async #poll(): Promise<void> {
    if (this.#readers === 0) return this.#stop()
    try {
      await this.#read()
      this.#failed = 0
    } catch {
      // Redis is away: meanwhile readers get heartbeats.
      if (++this.#failed >= failedPolls) this.log.break()
    }
    if (this.log.isEnded || this.log.isBroken) this.#stop()
    else this.#later()
  }

  #stop(): void {
    this.#isPolling = false
    this.#options.onEnd()
  }

  async #read(): Promise<void> {
    const { place, rows, lost } = this.#options
    const piece = await rows.frames(place, this.log.next)
    // Frames that the owner could not store in time are missing for good.
    if (!piece) return this.log.break()
    if (piece.text !== '') return await this.#take(piece)
    this.#quiet++
    if (this.#quiet < quietPolls) return
    this.#quiet = 0
    const state = await rows.state(place)
    // Nothing more comes when there is no stream, because the message was withdrawn or deleted; or when the stream has
    // ended with a terminal whose number has already been passed here, because Redis had lost frames.
    const isOver = !state || (state.isEnded && state.next <= this.log.next)
    if (isOver) this.log.break()
    else await lost.finish(place)
  }

  async #take({ text, next, isEnd, isLost }: StoredFrames): Promise<void> {
    const { place, rows } = this.#options
    this.#quiet = 0
    // Readers get this terminal now. A reader that comes again after it must not get a second one.
    if (isLost) await rows.terminals.note(place, next - 1)
    this.log.add(text, next)
    this.log.stored(next)
    if (isEnd) this.log.end({ isLost })
  }
}
