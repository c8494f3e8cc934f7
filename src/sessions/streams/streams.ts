// The streams of messages, wherever they are generated: read from any place, cancel, look at an unfinished message.

import { setTimeout as pause } from 'node:timers/promises'
import { GatewayError, errorBody } from '../../errors.ts'
import { latin1 } from '../../chat/frames.ts'
import type { Answer, Exchange } from '../../exchange.ts'
import { FairTurns } from '../../sharing/fair-turns.ts'
import { soon } from '../../sharing/patience.ts'
import type { Slots } from '../../sharing/slots.ts'
import { ClientLeft } from '../../http/body.ts'
import { sseHeaders } from '../../http/sse.ts'
import type { StreamOut } from '../../http/client-stream.ts'
import { Follower } from './follower.ts'
import { FrameLog, Numbered } from './frames.ts'
import type { Generations } from './generations.ts'
import type { Lost } from './lost.ts'
import type { StoredMessage } from '../message.ts'
import type { MessageBook } from '../messages.ts'
import { ReaderSlots } from './reader-slots.ts'
import { Reader } from './reader.ts'
import type { MessagePlace, StoredBytes, StreamRows, StreamState } from './stream-rows.ts'

export interface StreamsOptions {
  readonly rows: StreamRows
  readonly lost: Lost
  readonly generations: Generations
  readonly replayBytes: number
  readonly heartbeatMs: number
  /** How long a repeated send waits until the first one can't be refused any more. */
  readonly openPatienceMs: number
  /** For all readers of streams. */
  readonly slots: Slots
  readonly messages: Pick<MessageBook, 'read' | 'check'>
}

/** A log; `join` and `leave` tell a follower that somebody reads it. */
interface Source {
  readonly log: FrameLog
  join?(): void
  leave?(): void
}

/** 64 KiB for a reader at once: the bytes stay in memory while its client is slow. */
const readerBatches = 2
const readsAtOnce = 8

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
  /** Limits reads of frames: a thousand replays must not fill the one connection to Redis, even to a distant, slow Redis. */
  readonly #reads = new FairTurns(readsAtOnce)
  readonly #slots: ReaderSlots

  constructor(options: StreamsOptions) {
    this.#options = options
    this.#slots = new ReaderSlots(options.slots)
  }

  /**
   * 200 with frames from `seq` on. Throws `stream_expired` and `invalid_last_event_id`; `undefined` where nothing follows.
   * The reader has its slot until `leave`.
   */
  async open(x: Exchange, place: MessagePlace, from: From): Promise<Answer | undefined> {
    const { seq, isReplay } = from
    const { rows, generations, messages } = this.#options
    const wasGiven = seq > 0 && rows.terminals.wasGiven(place, seq - 1)
    const [hasEnd] = await Promise.all([wasGiven, messages.check(place)])
    // Nothing follows another gateway's terminal: neither that terminal again, nor the frames of an owner that is back.
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

  /** Called at the end of every exchange that may have opened a stream: not every opened stream is sent. */
  leave(x: Exchange): void {
    this.#slots.leave(x)
  }

  /** Writes frames from `seq` on until the end, or until its client has left. */
  async write(out: StreamOut, x: Exchange, reading: Reading): Promise<void> {
    const { rows, heartbeatMs } = this.#options
    const { place, source, seq, paid } = reading
    const reader = new Reader(out, {
      log: source.log,
      from: seq,
      heartbeatMs,
      stored: async (from) => {
        const piece = await this.#stored(place, from, readerBatches)
        if (piece?.isLost) await rows.terminals.note(place, piece.next - 1)
        return piece
      },
      afterLost: (from) => {
        // When the note fails, a client that asks again gets the terminal again.
        rows.terminals.note(place, from).catch(() => undefined)
        return { text: lostTerminal(x, place, from), next: from + 1 }
      },
    })
    const stop = () => reader.stop()
    x.left.addEventListener('abort', stop)
    if (x.left.aborted) stop()
    const onAbort = () => reader.cut()
    if (source instanceof Follower) {
      x.signal.addEventListener('abort', onAbort)
      if (x.signal.aborted) onAbort()
    }
    source.join?.()
    const leave = paid && this.#slots.takeAfter(paid, place.ref, onAbort)
    try {
      await reader.run()
    } finally {
      leave?.()
      source.leave?.()
      x.signal.removeEventListener('abort', onAbort)
    }
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
    this.#slots.take(x, place.ref)
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
    { source, seq }: Pick<Reading, 'source' | 'seq'>,
  ): Promise<Answer> {
    this.#slots.take(x, place.ref)
    await this.#checkKept(place, { source, seq })
    const stream = (out: StreamOut) => this.write(out, x, { place, source, seq })
    return { status: 200, headers: streamHeaders(place), stream }
  }

  /** Throws before the stream begins when the frame `seq` is no longer kept. */
  async #checkKept(
    place: MessagePlace,
    { source, seq }: Pick<Reading, 'source' | 'seq'>,
  ): Promise<void> {
    const here = source.log.from(seq, 1)?.text
    const kept = here ?? (await this.#stored(place, seq, 1))?.bytes
    const isGone = kept === undefined || (kept.length === 0 && seq < source.log.next)
    if (isGone) expired(place)
  }

  #stored(place: MessagePlace, seq: number, batches: number): Promise<StoredBytes | undefined> {
    return this.#reads.run(place.ref, () => this.#options.rows.frameBytes(place, seq, batches))
  }
}

interface Reading {
  readonly place: MessagePlace
  readonly source: Source
  readonly seq: number
  /** Settles when the generation that this reader pays for ends: until then, the reader needs no slot. */
  readonly paid?: Promise<unknown>
}

interface From {
  readonly seq: number
  /** True for a repeated send: its first try may still be refused. */
  readonly isReplay: boolean
}

export const sessionsPath = '/api/chat/sessions'

export function messagePath({ session, message }: MessagePlace): string {
  return `${sessionsPath}/${session}/messages/${message}`
}

export function streamHeaders(place: MessagePlace): Record<string, string> {
  const path = messagePath(place)
  return {
    ...sseHeaders,
    'X-Message-Id': place.message,
    'Content-Location': path,
    Location: `${path}/stream`,
  }
}

/** For a stream that its owner has ended: returns undefined, since nothing follows; throws when the place never existed. */
function nothingAfter(seq: number, { next }: { readonly next: number }): undefined {
  if (seq > next) throw new GatewayError('invalid_last_event_id')
}

function expired(place: MessagePlace): never {
  throw new GatewayError('stream_expired', { headers: { Location: messagePath(place) } })
}

function lostTerminal({ id }: Exchange, { message }: MessagePlace, seq: number): string {
  const data = errorBody(new GatewayError('upstream_incomplete'), id)
  return new Numbered(message, seq).frame({ event: undefined, data: latin1(data) })
}
