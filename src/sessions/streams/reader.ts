// One client that reads a message's stream: from where it was, through what Redis keeps, to what is generated now. Holds a
// place and no frames; a slow one falls behind and reads from Redis, a stuck one is dropped by its stream.
//
// What ends it: the terminal was written · the client left · its place is no longer kept · the log broke

import { GatewayError } from '../../errors.ts'
import { heartbeat } from '../../http/sse.ts'
import type { StreamOut } from '../../http/stream-out.ts'
import type { FrameLog, Piece } from './log.ts'
import type { StoredBytes } from './stream-rows.ts'

type StoredPiece = Omit<StoredBytes, 'isEnd'>

export interface ReaderOptions {
  readonly log: FrameLog
  /** Seq of the first frame that it has not. */
  readonly from: number
  readonly heartbeatMs: number
  /** What is stored from a seq on; undefined where that is no longer kept. */
  stored(seq: number): Promise<StoredPiece | undefined>
  /** The terminal for one who was ahead of a stream whose owner died: its copy is shorter than what the reader has seen. */
  afterLost(seq: number): Piece
}

/** Glued to the first block of every response: alone it would crash a parser. */
const retry = 'retry: 1000\n'

/** What a client that takes nothing has been given is held for it in memory. */
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

  /** The client is to ask again, elsewhere. */
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

  /** Nothing may follow the terminal, also where the client is slow to take it. */
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
    // A place that never was.
    if (from > next && !isLost) return this.#ended.reject(new GatewayError('invalid_last_event_id'))
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
    if (!this.#isEnded && !this.#giveBytes(piece)) await this.#out.drained()
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
