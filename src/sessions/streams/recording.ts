// A message that this process generates: frames from the relay go to the readers here at once, and to Redis in batches,
// never a flight a token. While Redis is away, frames wait in memory, bounded, and are written when Redis is back.
// When Redis no longer accepts this process as owner, the backend is stopped and readers are disconnected. Frames that
// Redis has lost are written again; when the session is lost too, only the readers here get the rest.

import type { SseEvent } from '../../exchange.ts'
import type { StreamOut } from '../../http/client-stream.ts'
import { Assembly } from './assembly.ts'
import { FrameLog, Numbered, frameAfter, frameStart } from './frames.ts'
import type { Appended, Batch, Owned, StreamRows } from './stream-rows.ts'

export interface RecordingOptions {
  readonly owned: Owned
  readonly rows: StreamRows
  /** Most bytes of frames, in memory and in Redis. */
  readonly replayBytes: number
  /** Called on a cancel from another instance, when the message is no longer ours, and when Redis has lost it with its session. */
  stop(code: 'message_cancelled' | 'upstream_incomplete' | 'session_not_found'): void
}

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
  readonly #assembly = new Assembly()
  /** Data values that the assembly has not got yet: it gets them once a batch, to keep the token path short. */
  #unread: string[] = []
  /** Frames that Redis may not have, from the seq `#first` up to before `#next`. */
  #pending = ''
  #first = 0
  #next = 0
  /** True when frames are missing between those in Redis and `#pending`: the next append replaces those in Redis. */
  #mustReplace = false
  /** A snapshot is the text of all words so far: Redis then needs none of the frames that said them. */
  #bytesSinceSnapshot = 0
  #appending: Promise<void> | undefined
  #storingEnd: Promise<boolean> | undefined
  #timer: NodeJS.Timeout | undefined
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
    this.#unread.push(event.data)
    return this.#numbered.frame(event)
  }

  /** Another target is asked: its frames get the numbers of the last target's, which were never written. */
  restart(): void {
    this.#numbered = new Numbered(this.#options.owned.message, this.#next)
    this.#unread = []
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
    this.log.add(text, this.#next)
    if (isFirst || this.#pending.length >= flushBytes) this.#flush()
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
    for (const data of this.#unread) this.#assembly.add(data)
    this.#unread = []
    return this.#assembly
  }

  /** Called when Redis is back. */
  wake(): void {
    if (this.#pending !== '') this.#flush()
  }

  /**
   * Writes the last frames, with the terminal, and the final row. Readers get the frames when Redis has them or can't
   * be asked: so a client that sees the end finds the message complete. When this returns false, Redis has not taken
   * them: the caller calls again, without text.
   */
  async finish(text: string, row: string): Promise<boolean> {
    this.#isFinishing = true
    clearTimeout(this.#timer)
    await this.#appending
    if (text !== '' && !this.#isDropped) this.#keep(text)
    // The end is stored again (with an empty text) until Redis has it; calls at the same time share one try.
    this.#storingEnd ??= this.#storeEnd(row)
      .catch(() => false)
      .finally(() => (this.#storingEnd = undefined))
    const isStored = await this.#storingEnd
    if (this.#isDropped) return true
    if (!this.log.isEnded) {
      this.log.add(text, this.#next)
      this.log.end()
    }
    return isStored
  }

  /** The message was withdrawn or is no longer ours: disconnects its readers. */
  drop(): void {
    this.#isDropped = true
    clearTimeout(this.#timer)
    this.log.break()
  }

  #keep(text: string): void {
    const { replayBytes, owned } = this.#options
    this.#pending += text
    this.#next = this.#numbered.next
    this.#bytesSinceSnapshot += text.length
    if (this.#pending.length <= replayBytes) return
    // Redis has been away for long: drops old frames, to leave room for more. What Redis has will then be replaced.
    const cut = this.#pending.length - replayBytes / 2
    const frame = frameAfter(this.#pending, owned.message, cut)
    if (!frame) return
    this.#pending = this.#pending.slice(frame.start)
    this.#first = frame.seq
    this.#mustReplace = true
  }

  #schedule(ms: number): void {
    this.#isDue = ms === flushMs
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#flush(), ms)
  }

  #flush(): void {
    // After the message has ended, its stream must not be appended to.
    if (this.#appending || this.isUnwritable || this.#isFinishing) return
    this.#appending = this.#send().then((isTaken) => {
      this.#appending = undefined
      if (this.#isFinishing || this.isUnwritable) return
      if (isTaken && this.#pending.length >= flushBytes) return this.#flush()
      this.#schedule(this.#pending.length > 0 ? flushMs : silenceMs)
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
      const isLast = batch.text.length === this.#pending.length
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

  #all(): Batch {
    const count = this.#next - this.#first
    return { first: this.#first, count, text: this.#pending, replaces: this.#mustReplace }
  }

  /** A batch of whole frames, from the first pending one on. */
  #batch(): Batch {
    const next = frameAfter(this.#pending, this.#options.owned.message, batchBytes)
    if (!next) return this.#all()
    const text = this.#pending.slice(0, next.start)
    return { first: this.#first, count: next.seq - this.#first, text }
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
    // If `#keep` has dropped old frames meanwhile, for want of room, `#pending` no longer begins with this batch.
    if (this.#first === batch.first) {
      this.#pending = this.#pending.slice(batch.text.length)
      this.#first += batch.count
      this.#mustReplace = false
    }
    this.log.stored(this.#first)
    if (!isCancelled) return
    this.#isCancelled = true
    this.#options.stop('message_cancelled')
  }

  /** Redis has the frames before `seq`: more than was known here when a reply was lost, fewer when Redis has lost some. */
  #goOnFrom(seq: number): void {
    const hasSomePending = seq > this.#first && seq <= this.#next
    if (hasSomePending) {
      const start = frameStart(this.#pending, this.#options.owned.message, seq)
      this.#pending = start === undefined ? '' : this.#pending.slice(start)
      this.#first = seq
      return
    }
    this.#takeBack(seq)
    // If memory no longer has the frame that Redis needs, Redis cannot go on from those that it has.
    this.#mustReplace = this.#first !== seq
  }

  /** Makes the frames from `seq` on pending again, as far as memory still has them. */
  #takeBack(seq: number): void {
    const from = Math.max(seq, this.log.first)
    const forgotten = from < this.#first ? this.log.from(from) : undefined
    if (!forgotten) return
    // The log must reach up to the first pending frame. Where `#keep` has dropped frames that the log does not have either,
    // nothing is taken back.
    const end = frameStart(forgotten.text, this.#options.owned.message, this.#first)
    const reachesPending = end !== undefined || this.#first === this.log.next
    if (!reachesPending) return
    this.#pending = forgotten.text.slice(0, end) + this.#pending
    this.#first = from
  }
}
