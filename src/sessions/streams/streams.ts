// The streams of messages, wherever they are generated: read from any place, cancel, look at an unfinished message.

import { setTimeout as pause } from 'node:timers/promises'
import { GatewayError } from '../../errors.ts'
import type { Answer, Exchange } from '../../exchange.ts'
import { soon } from '../../sharing/patience.ts'
import { ClientLeft } from '../../http/body.ts'
import type { StreamOut } from '../../http/client-stream.ts'
import { Follower } from './follower.ts'
import { FrameLog } from './frame-log.ts'
import type { Generations } from './generations.ts'
import type { Lost } from './lost.ts'
import { messagePath } from '../message.ts'
import type { StoredMessage } from '../message.ts'
import type { MessageBook } from '../messages.ts'
import { streamHeaders } from './reader.ts'
import type { Readers, StreamReading } from './reader.ts'
import type { MessagePlace, StreamRows, StreamState } from './stream-rows.ts'

export interface StreamsOptions {
  readonly rows: StreamRows
  readonly readers: Readers
  readonly lost: Lost
  readonly generations: Generations
  readonly replayBytes: number
  /** How long a repeated send waits until the first one can't be refused any more. */
  readonly openPatienceMs: number
  readonly messages: Pick<MessageBook, 'read' | 'check'>
}

const pollMs = 100
const cancelPolls = 50
const openPollMs = 250
/** Polls between two looks at the owner, who may be gone. */
const ownerPolls = 4
/** How long a cancel waits for the end of a message that is generated here. */
const cancelWaitMs = 2000

export class Streams {
  readonly #options: StreamsOptions
  readonly #followers = new Map<string, Follower>()
  readonly readers: Readers

  constructor(options: StreamsOptions) {
    this.#options = options
    this.readers = options.readers
  }

  /**
   * 200 with frames from `seq` on; `undefined` where nothing follows; for a repeated send also the refusal of the first try.
   * Throws `stream_expired` and `invalid_last_event_id`.
   * The reader has its slot until `readers.leave`.
   */
  async open(x: Exchange, place: MessagePlace, from: From): Promise<Answer | undefined> {
    const { seq, isReplay } = from
    const { rows, generations, messages } = this.#options
    const wasGiven = seq > 0 && rows.terminals.wasGiven(place, seq - 1)
    const [hasEnd] = await Promise.all([wasGiven, messages.check(place)])
    // A reader that had another gateway's terminal gets no more: neither it again, nor frames of an owner that is back.
    if (hasEnd) return undefined
    const local = generations.recordingOf(place)
    // When the first try is refused before its answer begins,
    // nothing can be replayed: the repetition gets this refusal.
    const refusal = isReplay ? await generations.find(place)?.opened : undefined
    if (refusal) return refusal
    if (local?.log.isEnded && seq >= local.log.next) return nothingAfter(seq, local.log)
    if (local) return await this.#answer(x, place, { source: local, seq })
    const state = isReplay ? await this.#opened(x, place) : await this.#stateOf(place)
    if (state.isEnded) return await this.#replay(x, place, { state, seq })
    return await this.#answer(x, place, { source: this.#follow(place, state.next), seq })
  }

  /** Returns the message as it ended, or as it is now when its owner does not react in time. */
  async cancel(place: MessagePlace): Promise<StoredMessage> {
    const { generations, rows, lost } = this.#options
    const running = generations.find(place)
    running?.cancel()
    if (running) await soon(running.done, cancelWaitMs)
    // Still running: its backend is read on for the usage.
    if (generations.find(place)) return await this.look(place)
    for (let poll = 0; poll < cancelPolls; poll++) {
      const message = await this.#options.messages.read(place)
      if (message.status !== 'in_progress') return message
      if (poll === 0) await rows.cancel(place)
      if (poll % 10 === 0) await lost.finish(place)
      await pause(pollMs)
    }
    return await this.look(place)
  }

  /** Returns the message with its words up to now; ends the message first when its owner is gone. */
  async look(place: MessagePlace): Promise<StoredMessage> {
    const { lost, generations, messages } = this.#options
    const message = await messages.read(place)
    if (message.status !== 'in_progress') return message
    const local = generations.recordingOf(place)
    if (!local && (await lost.finish(place))) return await messages.read(place)
    const said = local?.said() ?? (await lost.said(place))
    const { finish_reason: _, ...words } = said.result()
    return { ...message, ...words }
  }

  /** Waits until the message can't be withdrawn any more: before, no send may be answered with its id. */
  async #opened(x: Exchange, place: MessagePlace): Promise<StreamState> {
    this.readers.take(x, place.ref)
    const until = performance.now() + this.#options.openPatienceMs
    for (let poll = 0; performance.now() < until; poll++) {
      const isOwnerDue = poll % ownerPolls === 0
      const state = await (isOwnerDue ? this.#stateOf(place) : this.#options.rows.state(place))
      if (!state) expired(place)
      if (state.isOpen) return state
      await pause(openPollMs)
      x.signal.throwIfAborted()
      if (x.left.aborted) throw new ClientLeft()
    }
    throw new GatewayError('idempotency_in_progress')
  }

  async #stateOf(place: MessagePlace): Promise<StreamState> {
    const { rows, lost } = this.#options
    const state = await rows.state(place)
    if (state && !state.isEnded && (await lost.finish(place))) {
      return (await rows.state(place)) ?? expired(place)
    }
    return state ?? expired(place)
  }

  async #replay(
    x: Exchange,
    place: MessagePlace,
    { state, seq }: { readonly state: StreamState; readonly seq: number },
  ): Promise<Answer | undefined> {
    const { next, isLost } = state
    if (!isLost && seq >= next) return nothingAfter(seq, state)
    const log = new FrameLog(place.message, { next, maxBytes: this.#options.replayBytes })
    log.end({ isLost })
    return await this.#answer(x, place, { source: { log }, seq })
  }

  #follow(place: MessagePlace, next: number): Follower {
    const { rows, lost, replayBytes } = this.#options
    const known = this.#followers.get(place.message)
    if (known) return known
    const onEnd = () => {
      // By now, a new follower may have this place.
      if (this.#followers.get(place.message) === follower) this.#followers.delete(place.message)
    }
    const follower: Follower = new Follower({
      place,
      next,
      rows,
      lost,
      maxBytes: replayBytes,
      onEnd,
    })
    this.#followers.set(place.message, follower)
    return follower
  }

  async #answer(
    x: Exchange,
    place: MessagePlace,
    { source, seq }: Pick<StreamReading, 'source' | 'seq'>,
  ): Promise<Answer> {
    this.readers.take(x, place.ref)
    await this.#checkKept(place, { source, seq })
    const stream = (out: StreamOut) => this.readers.write(out, x, { place, source, seq })
    return { status: 200, headers: streamHeaders(place), stream }
  }

  /** Throws before the stream begins when the frame `seq` is no longer kept. */
  async #checkKept(
    place: MessagePlace,
    { source, seq }: Pick<StreamReading, 'source' | 'seq'>,
  ): Promise<void> {
    const here = source.log.from(seq, 1)?.text
    const kept = here ?? (await this.readers.stored(place, seq, 1))?.bytes
    const isGone = kept === undefined || (kept.length === 0 && seq < source.log.next)
    if (isGone) expired(place)
  }
}

interface From {
  readonly seq: number
  /** True for a repeated send: its first try may still be refused. */
  readonly isReplay: boolean
}

/** For a stream that its owner has ended: returns undefined, since nothing follows; throws when the place never existed. */
function nothingAfter(seq: number, { next }: { readonly next: number }): undefined {
  if (seq > next) throw new GatewayError('invalid_last_event_id')
}

function expired(place: MessagePlace): never {
  throw new GatewayError('stream_expired', { headers: { Location: messagePath(place) } })
}
