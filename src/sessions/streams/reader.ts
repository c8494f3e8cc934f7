// One client that reads a message's stream: from its last place, through what Redis
// keeps, to what is generated now. A reader has a place and no frames: a slow client
// falls behind and reads from Redis; its own response disconnects a stuck client.
//
// `Readers` has what all of them share: slots, turns at Redis, and how one is connected to its exchange.
//
// What ends a reader: the terminal was written · the client left · it was cut off (the drain, or no slot) · its place is
// no longer kept, or never was · the log broke

import { latin1 } from '../../chat/frames.ts'
import { GatewayError, errorBody } from '../../errors.ts'
import type { Exchange } from '../../exchange.ts'
import { beating, heartbeat, sseHeaders } from '../../http/sse.ts'
import type { StreamOut } from '../../http/client-stream.ts'
import { FairTurns } from '../../sharing/fair-turns.ts'
import type { PatientTimer } from '../../sharing/patience.ts'
import type { Slots } from '../../sharing/slots.ts'
import { messagePath } from '../message.ts'
import { Follower } from './follower.ts'
import type { FrameLog, Piece } from './frame-log.ts'
import { Numbered } from './frames.ts'
import type { MessagePlace, StoredBytes, StreamRows } from './stream-rows.ts'

export interface ReadersOptions {
  readonly rows: Pick<StreamRows, 'frameBytes' | 'terminals'>
  readonly heartbeatMs: number
  /** For all readers of streams. */
  readonly slots: Slots
}

export interface StreamReading {
  readonly place: MessagePlace
  /** The log of a recording of this process or of a message that has ended; or the follower of another process' recording. */
  readonly source: Follower | { readonly log: FrameLog }
  readonly seq: number
  /** Settles when the generation that this reader pays for ends: until then, the reader needs no slot. */
  readonly paid?: Promise<unknown>
}

/** Headers of the answer that a reader writes. */
export function streamHeaders(place: MessagePlace): Record<string, string> {
  const path = messagePath(place)
  return {
    ...sseHeaders,
    'X-Message-Id': place.message,
    'Content-Location': path,
    Location: `${path}/stream`,
  }
}

/** 64 KiB for a reader at once: the bytes stay in memory while its client is slow. */
const readerBatches = 2
const readsAtOnce = 8

/** An exchange that reads a stream has one of its account's slots, from before its answer until its end. If it pays for the generation that it reads, it needs the slot only once the generation has ended. */
export class Readers {
  readonly #options: ReadersOptions
  /** Limits reads of frames: a thousand replays must not fill the one connection to Redis, even to a distant, slow Redis. */
  readonly #reads = new FairTurns(readsAtOnce)
  readonly #leaving = new WeakMap<Exchange, () => void>()

  constructor(options: ReadersOptions) {
    this.#options = options
  }

  /** Takes a slot of the account until `leave`. Does nothing for an exchange that has one. */
  take(x: Exchange, ref: string): void {
    if (!this.#leaving.has(x)) this.#leaving.set(x, this.#options.slots.take(ref))
  }

  /** Called at the end of every exchange that may have opened a stream: not every opened stream is sent. */
  leave(x: Exchange): void {
    this.#leaving.get(x)?.()
  }

  /** Writes frames from `seq` on until the end, or until its client has left. */
  async write(out: StreamOut, x: Exchange, reading: StreamReading): Promise<void> {
    const { rows, heartbeatMs } = this.#options
    const { place, source, seq, paid } = reading
    const reader = new Reader(out, {
      log: source.log,
      from: seq,
      heartbeatMs,
      stored: async (from) => {
        const piece = await this.stored(place, from, readerBatches)
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
    const follower = source instanceof Follower ? source : undefined
    // A message of another gateway does not end with this one's drain, so its readers are cut off. One that is generated
    // here is ended by the drain itself, and its readers get that terminal.
    if (follower) {
      x.signal.addEventListener('abort', onAbort)
      if (x.signal.aborted) onAbort()
      follower.join()
    }
    const leave = paid && this.takeAfter(paid, place.ref, onAbort)
    try {
      await reader.run()
    } finally {
      leave?.()
      follower?.leave()
      x.signal.removeEventListener('abort', onAbort)
    }
  }

  /** When `paid` settles, the reader needs a slot; without one, it is cut off. Returns the function that the reader calls when it leaves. */
  takeAfter(paid: Promise<unknown>, ref: string, cut: () => void): () => void {
    let hasLeft = false
    let leave: (() => void) | undefined
    const onEnd = () => {
      if (hasLeft) return
      try {
        leave = this.#options.slots.take(ref)
      } catch {
        cut()
      }
    }
    paid.then(onEnd, onEnd)
    return () => {
      hasLeft = true
      leave?.()
    }
  }

  /** Frames in Redis from `seq` on, when the account has its turn. */
  stored(place: MessagePlace, seq: number, batches: number): Promise<StoredBytes | undefined> {
    return this.#reads.run(place.ref, () => this.#options.rows.frameBytes(place, seq, batches))
  }
}

function lostTerminal({ id }: Exchange, { message }: MessagePlace, seq: number): string {
  const data = errorBody(new GatewayError('upstream_incomplete'), id)
  return new Numbered(message, seq).frame({ event: undefined, data: latin1(data) })
}

type StoredPiece = Omit<StoredBytes, 'isLost'>

export interface ReaderOptions {
  readonly log: FrameLog
  /** Seq of the first frame that the client does not have. */
  readonly from: number
  readonly heartbeatMs: number
  /** Frames in Redis from `seq` on; undefined when the frame `seq` is no longer kept. */
  stored(seq: number): Promise<StoredPiece | undefined>
  /** The terminal for a client that had more frames from a dead owner than Redis has: numbered after the client's last frame. */
  afterLost(seq: number): Piece
}

/** Put before the first frame of every response: as a block of its own, it would crash some clients' parsers. */
const retry = 'retry: 1000\n'

/** Bytes given to a client at once: they stay in memory while the client takes nothing. */
const enough = 64 * 1024

export class Reader {
  readonly #options: ReaderOptions
  readonly #out: StreamOut
  readonly #ended = Promise.withResolvers<void>()
  #seq: number
  #prefix = retry
  #isWaiting = false
  #isEnded = false
  readonly #heartbeat: PatientTimer

  constructor(out: StreamOut, options: ReaderOptions) {
    this.#out = out
    this.#options = options
    this.#seq = options.from
    this.#heartbeat = beating(() => this.#beat(), options.heartbeatMs)
  }

  /** Resolves when there is nothing more to read; rejects when the answer has to be cut off. */
  async run(): Promise<void> {
    const { log } = this.#options
    log.listen(this.#pump)
    this.#pump()
    try {
      await this.#ended.promise
    } finally {
      this.stop()
    }
  }

  /** The client has left. */
  stop(): void {
    this.#isEnded = true
    this.#heartbeat.clear()
    this.#options.log.unlisten(this.#pump)
    this.#ended.resolve()
  }

  /** Disconnects the client, which may ask again: this gateway is draining, or the account has no slot left for it. */
  cut(): void {
    this.#ended.reject(new GatewayError('server_draining'))
  }

  readonly #pump = (): void => {
    const { log } = this.#options
    while (!this.#isWaiting && !this.#isEnded) {
      if (this.#out.left) return this.stop()
      const piece = log.from(this.#seq, enough)
      if (!piece) return void this.#wait(this.#catchUp())
      if (piece.text === '') return this.#atTheEnd()
      if (!this.#give(piece)) return void this.#wait(this.#out.drained())
    }
  }

  /** No heartbeat may follow the terminal, even when the client is slow to take the terminal. */
  #beat(): void {
    const { isEnded, next } = this.#options.log
    if (!isEnded || this.#seq < next) this.#out.write(heartbeat)
  }

  #atTheEnd(): void {
    const { log, from, afterLost } = this.#options
    const { isEnded, isBroken, isLost, next } = log
    if (!isEnded) {
      if (isBroken) this.#ended.reject(new GatewayError('upstream_unavailable'))
      return
    }
    // The stream never had the place that the client asked for.
    if (from > next && !isLost) return this.#ended.reject(new GatewayError('invalid_last_event_id'))
    // The client came with a frame of the dead owner that has the terminal's number, or a later one: it gets the terminal
    // behind that.
    if (from >= next && isLost) this.#give(afterLost(this.#seq))
    this.stop()
  }

  /** False when the client is slow. */
  #give({ text, next }: Piece): boolean {
    this.#heartbeat.refresh()
    this.#seq = next
    const whole = this.#prefix + text
    this.#prefix = ''
    return this.#out.write(whole)
  }

  #giveBytes({ bytes, next }: StoredPiece): boolean {
    this.#heartbeat.refresh()
    this.#seq = next
    const whole = this.#prefix ? Buffer.concat([Buffer.from(this.#prefix), bytes]) : bytes
    this.#prefix = ''
    return this.#out.write(whole)
  }

  async #catchUp(): Promise<void> {
    const piece = await this.#options.stored(this.#seq)
    if (!piece || piece.bytes.length === 0) throw new GatewayError('stream_expired')
    if (this.#isEnded) return
    const isTaken = this.#giveBytes(piece)
    if (piece.isEnd) this.#heartbeat.clear()
    if (!isTaken) await this.#out.drained()
    // This was the end, even if the log goes on: an owner that comes back puts its own end in the place of another gateway's.
    if (piece.isEnd) this.stop()
  }

  async #wait(until: Promise<void>): Promise<void> {
    this.#isWaiting = true
    try {
      await until
    } catch (error) {
      return this.#ended.reject(error)
    }
    this.#isWaiting = false
    this.#pump()
  }
}
