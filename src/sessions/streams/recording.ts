// A message that this process generates: frames from the relay go to the readers here at once, and to Redis in batches,
// never a flight a token. While Redis is away, frames wait in memory, bounded, and are written when Redis is back.
// When Redis no longer accepts this process as owner, the backend is stopped and readers are disconnected. Frames that
// Redis has lost are written again; when the session is lost too, only the readers here get the rest.

import type { SseEvent } from '../../exchange.ts'
import type { StreamOut } from '../../http/client-stream.ts'
import { JointTimer } from '../../sharing/joint-timer.ts'
import { Assembly } from './assembly.ts'
import { FrameLog } from './frame-log.ts'
import { Numbered } from './frames.ts'
import type { Appended } from './appends.ts'
import type { Batch, Owned, StreamRows } from './stream-rows.ts'

export interface RecordingOptions {
  readonly owned: Owned
  readonly rows: StreamRows
  /** Most bytes of frames, in memory and in Redis. */
  readonly replayBytes: number
  /** Bytes of frames that stay in memory when Redis has them. */
  readonly tailBytes?: (() => number) | undefined
  /** Called on a cancel from another instance, when the message is no longer ours, and when Redis has lost it with its session. */
  stop(code: 'message_cancelled' | 'upstream_incomplete' | 'session_not_found'): void
}

const none = Buffer.alloc(0)

/** Of all recordings, so that Redis gets their batches together. */
const flushes = new JointTimer(25)

const flushMs = 250
const flushBytes = 16 * 1024
/** Bytes of a batch, or one event more: readers of the copy take whole batches, and many read at a time. */
const batchBytes = 32 * 1024
/** A silent owner appends an empty batch this often: to show that it lives, and to learn of a cancel. */
const silenceMs = 1000

export class Recording implements StreamOut {
  readonly log: FrameLog
  /** Never true: the recording goes on when its readers leave. */
  readonly left = false
  readonly #options: RecordingOptions
  #numbered: Numbered
  #assembly = new Assembly()
  /** Redis may not have the frames of the log from the seq `#first` up to before `#next`. */
  #pendingBytes = 0
  #first = 0
  #next = 0
  /** True when frames are missing between those in Redis and the pending ones: the next append replaces those in Redis. */
  #mustReplace = false
  /** A snapshot is the text of all words so far: Redis then needs none of the frames that said them. */
  #bytesSinceSnapshot = 0
  #appending: Promise<void> | undefined
  #storingEnd: Promise<boolean> | undefined
  /** The timer already waits for no longer than `flushMs`, not for `silenceMs`. */
  #isDue = false
  #isOpen = false
  #isFinishing = false
  #isDropped = false
  #isCancelled = false
  #isForgotten = false

  constructor(options: RecordingOptions) {
    const { owned, replayBytes } = options
    this.#options = options
    this.log = new FrameLog(owned.message, { next: 0, maxBytes: replayBytes })
    this.#numbered = new Numbered(owned.message)
    this.#schedule(silenceMs)
  }

  /** For the relay: a frame with its number. */
  frame(event: SseEvent): string {
    this.#assembly.add(event.data)
    return this.#numbered.frame(event)
  }

  /** Another target is asked: its frames get the numbers of the last target's, which were never written. */
  restart(): void {
    this.#numbered = new Numbered(this.#options.owned.message, this.#next)
    this.#assembly = new Assembly()
  }

  /** The gateway's own last frame. It gets the number of the first frame that was not written: the frames from there on had no content, and are dropped. */
  lastFrame(data: string): string {
    this.#numbered = new Numbered(this.#options.owned.message, this.#next)
    return this.frame({ event: undefined, data })
  }

  /** Takes whole frames: all that were numbered since the last call. */
  write(text: string): boolean {
    if (text === '' || this.#isDropped) return true
    const isFirst = this.#next === 0
    this.#keep(text)
    this.log.show(text, this.#next)
    if (isFirst || this.#pendingBytes >= flushBytes) this.#flush()
    else if (!this.#isDue) this.#schedule(flushMs)
    return true
  }

  async drained(): Promise<void> {}

  /** The client has the message's id, though there is no frame yet: the next append tells other gateways. */
  open(): void {
    this.#isOpen = true
  }

  /** Nothing more of it can be written: it was withdrawn, another gateway ended it, or Redis has lost it with its session. */
  get isUnwritable(): boolean {
    return this.#isDropped || this.#isForgotten
  }

  /** What was generated so far. */
  said(): Assembly {
    return this.#assembly
  }

  /** Called when Redis is back. */
  wake(): void {
    if (this.#hasPending) this.#flush()
  }

  /**
   * Writes the last frames, with the terminal, and the final row. Readers get the frames when Redis has them or can't
   * be asked: so a client that sees the end finds the message complete. When this returns false, Redis has not taken
   * them: the caller calls again, without text.
   */
  async finish(text: string, row: string): Promise<boolean> {
    this.#isFinishing = true
    flushes.clear(this.#flush)
    await this.#appending
    if (text !== '' && !this.#isDropped) this.#keep(text)
    // The end is stored again (with an empty text) until Redis has it; calls at the same time share one try.
    this.#storingEnd ??= this.#storeEnd(row)
      .catch(() => false)
      .finally(() => (this.#storingEnd = undefined))
    const isStored = await this.#storingEnd
    if (this.#isDropped) return true
    if (!this.log.isEnded) {
      this.log.show(text, this.#next)
      this.log.end()
    }
    return isStored
  }

  /** The message was withdrawn or is no longer ours: disconnects its readers. */
  drop(): void {
    this.#isDropped = true
    flushes.clear(this.#flush)
    this.log.break()
  }

  get #hasPending(): boolean {
    return this.#first < this.#next
  }

  #keep(text: string): void {
    this.#next = this.#numbered.next
    this.log.hold(text, this.#next)
    this.#pendingBytes += text.length
    this.#bytesSinceSnapshot += text.length
    // Redis has been away for long, and the log has dropped old frames, to leave room for more: what Redis has will be
    // replaced.
    if (this.log.first > this.#first) this.#resume(this.log.first, true)
  }

  #schedule(ms: number): void {
    this.#isDue = ms === flushMs
    flushes.set(this.#flush, ms)
  }

  readonly #flush = (): void => {
    // After the message has ended, its stream must not be appended to.
    if (this.#appending || this.isUnwritable || this.#isFinishing) return
    this.#appending = this.#send().then((isTaken) => {
      this.#appending = undefined
      if (this.#isFinishing || this.isUnwritable) return
      if (isTaken && this.#pendingBytes >= flushBytes) return this.#flush()
      this.#schedule(this.#hasPending ? flushMs : silenceMs)
    })
  }

  async #send(): Promise<boolean> {
    const { rows, owned, replayBytes } = this.#options
    const said = this.said()
    const isSnapshotDue = this.#mustReplace || this.#bytesSinceSnapshot > replayBytes / 2
    // A snapshot has the words of all frames so far, so all pending frames go with it, and not only a batch of them.
    const batch = isSnapshotDue ? { ...this.#all(), said: said.snapshot() } : this.#batch()
    try {
      const reply = await rows.append(owned, { ...batch, isOpen: this.#isOpen })
      const isTaken = reply.word === 'ok'
      if (isTaken && isSnapshotDue) this.#bytesSinceSnapshot = 0
      this.#onReply(reply, batch)
      return isTaken
    } catch {
      // Redis is away or refuses: the frames wait for the next flush.
      return false
    }
  }

  async #storeEnd(row: string): Promise<boolean> {
    const { rows, owned } = this.#options
    // Redis may have more or fewer frames than this process knew: its reply then says which frame it needs next.
    let misses = 0
    let hasOtherEnd = false
    while (misses < 3 && !this.isUnwritable) {
      const batch: Batch = this.#mustReplace || hasOtherEnd ? this.#all() : this.#batch()
      const isLast = batch.first + batch.count === this.#next
      const reply = await (isLast ? rows.finish(owned, batch, row) : rows.append(owned, batch))
      const isTaken = reply.word === 'ok'
      if (isTaken && isLast) return true
      if (!isTaken) misses++
      // An append was refused as `lost`: another gateway has ended the message. A whole answer may still take the place of that
      // end, so the next try sends all that is left as the last batch.
      hasOtherEnd = reply.word === 'lost' && !isLast
      if (!hasOtherEnd) this.#onReply(reply, batch)
    }
    return this.isUnwritable
  }

  /** All pending frames. */
  #all(): Batch {
    return { ...this.#batch(Infinity), replaces: this.#mustReplace }
  }

  /** A batch of whole frames, from the first pending one on. */
  #batch(enough = batchBytes): Batch {
    const first = this.#first
    const { bytes, next } = this.log.bytes(first, enough) ?? { bytes: none, next: first }
    // A copy, because the log goes on while the batch is on its way.
    return { first, count: next - first, text: Buffer.from(bytes) }
  }

  #onReply(reply: Appended, batch: Batch): void {
    if (reply.word === 'ok') return this.#onStored(batch, reply.isCancelled)
    if (reply.word === 'behind') return this.#goOnFrom(reply.next)
    const { stop } = this.#options
    // A client that deletes the session cancels this message first: then Redis has not forgotten anything.
    const isForgotten = reply.word === 'forgotten' && !this.#isCancelled
    if (isForgotten) {
      this.#isForgotten = true
      return stop('session_not_found')
    }
    // The message has another owner or another end, or a client has deleted it.
    this.drop()
    stop('upstream_incomplete')
  }

  #onStored(batch: Batch, isCancelled: boolean): void {
    // If `#keep` has dropped old frames meanwhile, for want of room, the pending ones no longer begin with this batch.
    if (this.#first === batch.first) {
      this.#first += batch.count
      this.#pendingBytes -= batch.text.length
      this.#mustReplace = false
    }
    this.log.stored(this.#first, this.#options.tailBytes?.())
    if (!isCancelled) return
    this.#isCancelled = true
    this.#options.stop('message_cancelled')
  }

  /** Redis has the frames before `seq`: more than was known here when a reply was lost, fewer when Redis has lost some. */
  #goOnFrom(seq: number): void {
    const hasSomePending = seq > this.#first && seq <= this.#next
    if (hasSomePending) return this.#resume(seq, this.#mustReplace)
    const from = Math.min(this.#first, Math.max(seq, this.log.first))
    // If memory no longer has the frame that Redis needs, Redis cannot go on from those that it has.
    this.#resume(from, from !== seq)
  }

  /** Makes the frames from `seq` on pending. */
  #resume(seq: number, mustReplace: boolean): void {
    this.#first = seq
    this.#pendingBytes = this.log.bytes(seq)?.bytes.length ?? 0
    this.#mustReplace = mustReplace
  }
}
