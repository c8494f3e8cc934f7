// One client that reads a message's stream: from its last place, through what Redis
// keeps, to what is generated now. A reader has a place and no frames: a slow client
// falls behind and reads from Redis; its own response disconnects a stuck client.
//
// What ends it: the terminal was written · the client left · its place is no longer kept · the log broke

import { GatewayError } from '../../errors.ts'
import { heartbeat } from '../../http/sse.ts'
import type { StreamOut } from '../../http/client-stream.ts'
import type { FrameLog, Piece } from './frames.ts'
import type { StoredBytes } from './stream-rows.ts'

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
  #heartbeat: NodeJS.Timeout

  constructor(out: StreamOut, options: ReaderOptions) {
    this.#out = out
    this.#options = options
    this.#seq = options.from
    this.#heartbeat = setInterval(() => this.#beat(), options.heartbeatMs)
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
    clearInterval(this.#heartbeat)
    this.#options.log.unlisten(this.#pump)
    this.#ended.resolve()
  }

  /** Disconnects the client, which then asks another instance. */
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
    // The client has had all frames, and perhaps more of the dead owner's, but not this terminal.
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
    if (piece.isEnd) clearInterval(this.#heartbeat)
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
