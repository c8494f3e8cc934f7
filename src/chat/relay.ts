// The token path: passes a backend's events to a client or a recording, each data value byte for byte. The answer begins
// as `opened` says and, unless its client has left, ends in one terminal: `[DONE]` only if every choice has an end.
//
// What can end it, each a call of #end:
//   the backend ended, whole or cut · [DONE] · an error event · 2 s after the finish · the ledger, by any StopReason ·
//   more tokens than twice the output's bound plus 64 · an event that is too large · deadline.signal: a time-out, the
//   drain, a cancel or the client leaving; where data may be unread, #onDepart first reads it

import type { BackendAnswer } from '../backend/forward.ts'
import { mask } from '../backend/secrets.ts'
import { SseReader } from '../backend/sse-reader.ts'
import { GatewayError, asGatewayError } from '../errors.ts'
import type { Outcome, SseEvent } from '../exchange.ts'
import { ClientLeft } from '../http/body.ts'
import { beating, heartbeat } from '../http/sse.ts'
import type { StreamOut } from '../http/client-stream.ts'
import type { StopReason } from '../ledger/hold.ts'
import { PatientTimer } from '../sharing/patience.ts'
import { isErrorBody } from './backend-status.ts'
import { isUnwanted, untilQuiet } from './deadline.ts'
import { forgetBody, incomplete, judgeEnding, outcome, terminal } from './generating.ts'
import type { Ending, Generation } from './generating.ts'
import { Pacing } from './pacing.ts'

export interface RelayEnd {
  readonly ending: Ending
  /** The frames that are not yet written, with the terminal. */
  readonly frames: string
}

/** How long the relay waits for usage and [DONE] after a finish. */
const afterFinishMs = 2000

/** Frames without content are held back until they are more than this. Then the answer begins, because nothing may grow without bound. */
const heldBytes = 1024 * 1024

export class Relay {
  readonly backend: BackendAnswer
  readonly #generation: Generation
  readonly #signal: AbortSignal
  readonly #pacing: Pacing
  readonly #reader: SseReader
  readonly #opened = Promise.withResolvers<void>()
  readonly #ended = Promise.withResolvers<Ending>()
  #isEnded = false
  #isDeparting = false // the answer has to end, but what the backend has already sent is read first
  /** The client has left, or has cancelled its message. */
  #isUnwanted = false
  /** How often the backend's socket brought data. */
  #reads = 0
  #isOpen = false
  /** Frames not yet written. */
  #frames = ''
  #isFlushDue = false
  #out: StreamOut | undefined
  #heartbeat: PatientTimer | undefined
  #afterFinish: PatientTimer | undefined
  /** What came while the answer is paused. */
  #waiting: (() => void)[] | undefined

  constructor(generation: Generation, backend: BackendAnswer) {
    const { limits, deadline, request } = generation
    this.#generation = generation
    this.backend = backend
    this.#pacing = new Pacing(backend, request.model.flushMs ?? limits.flushMs)
    this.#signal = deadline.signal
    this.#reader = new SseReader(limits.sseLineBytes)
    if (this.#signal.aborted) this.#onAbort()
    deadline.onDepart(this.#onDepart, this.#pacing.rests)
    this.#signal.addEventListener('abort', this.#onAbort)
    backend.stream.on('data', this.#onData)
    backend.stream.on('error', () => undefined)
    void backend.ended.then((how) => this.#onBackendEnd(how))
  }

  /** Resolves with undefined when 200 may be sent: content has come, too much was held back, or the answer has ended well. When an error came instead, resolves with the backend's error, or throws. */
  async opened(): Promise<string | undefined> {
    await Promise.race([this.#opened.promise, this.#ended.promise])
    if (this.#isOpen) return undefined
    const ending = await this.#ended.promise
    this.#release()
    if (ending.kind === 'failed') throw ending.error
    if (ending.kind === 'left') throw new ClientLeft()
    return ending.kind === 'relayed-error' ? ending.event.data : undefined
  }

  stop(reason: StopReason): void {
    const isSuspended = reason === 'account_suspended'
    if (isSuspended) this.#end({ kind: 'failed', error: new GatewayError(reason) })
    else this.#end({ kind: 'length', cut: true })
  }

  /** Has no effect once the answer has to end (#onDepart): what the backend has already sent is then counted at once. */
  pause(until: Promise<unknown>): void {
    if (this.#isEnded || this.#isDeparting || this.#waiting) return
    this.#waiting = []
    this.backend.stream.pause()
    this.#generation.deadline.pause()
    until.then(this.#goOn, this.#goOn)
  }

  /** Writes frames until the end, and returns the last ones for the caller to write: by then the settlement is on its way, so nobody sees the end before the new balance. */
  async pump(out: StreamOut): Promise<RelayEnd> {
    this.#out = out
    forgetBody(this.#generation, this.backend)
    const { heartbeatMs } = this.#generation
    if (heartbeatMs) this.#heartbeat = beating(() => out.write(heartbeat), heartbeatMs)
    this.#flush()
    const ending = await this.#ended.promise
    this.#generation.deadline.stop()
    judgeEnding(this.#generation, ending)
    const frames = this.#takeFrames()
    try {
      await this.#generation.run.finish(this.#outcome(ending)) // counts tokens; heartbeats go on
    } finally {
      this.#release()
    }
    const { cancelled } = this.#generation
    // A cancelled generation ends as cancelled, however its backend has ended since.
    const shown: Ending = cancelled ? { kind: 'failed', error: cancelled } : ending
    return { ending: shown, frames: frames + terminal(this.#generation, shown) }
  }

  readonly #onData = (chunk: Buffer) => {
    this.#reads++
    try {
      this.#reader.feed(chunk, this.#onEvent)
    } catch (error) {
      const { rest } = this.#reader
      this.#generation.meter.wasted({ head: rest, tail: rest, bytes: rest.length })
      this.#end({ kind: 'failed', error: asGatewayError(error) })
    }
    if (this.#isEnded) return
    // Without `#out` the answer has not begun, and frames are held back.
    if (this.#generation.meter.overran) this.#end({ kind: 'length', cut: false })
    else if (this.#out) this.#flushSoon()
    else if (this.#frames.length > heldBytes) this.#open()
  }

  readonly #onEvent = (event: SseEvent) => {
    if (this.#isEnded) return
    if (this.#waiting) return void this.#waiting.push(() => this.#onEvent(event))
    const { meter, run, request, deadline } = this.#generation
    const kind = meter.event(event.data)
    if (kind === 'done') return this.#onDone()
    // Once nobody waits for the answer, its events are only metered.
    const isForClient = !this.#generation.cancelled && !this.#isUnwanted
    if (isForClient) run.event?.(event)
    if (kind === 'error') return this.#onError(event)
    if (kind === 'content') this.#onContent()
    deadline.heard()
    const isOwnUsage = kind === 'usage' && !request.wantsUsage
    if (isForClient && !isOwnUsage) this.#frames += this.#generation.grammar.frame(event)
  }

  #onError(event: SseEvent): void {
    event.data = mask(event.data, this.#generation.target)
    this.#end({ kind: 'relayed-error', event })
  }

  #onContent(): void {
    const { x, deadline, meter, sentAtMs } = this.#generation
    if (x.facts.firstTokenMs === undefined) {
      x.facts.firstTokenMs = performance.now() - sentAtMs
      deadline.started()
      this.#generation.seat?.answered()
      this.#open()
    }
    if (meter.finished && !this.#afterFinish) {
      deadline.finished()
      this.#afterFinish = new PatientTimer(() => this.#end({ kind: 'complete' }), afterFinishMs)
    }
  }

  /** One server sends [DONE] even after a cut, so [DONE] means success only after a finish. */
  #onDone(): void {
    const { meter } = this.#generation
    this.#end(meter.complete ? { kind: 'complete' } : { kind: 'failed', error: incomplete(meter) })
  }

  #onBackendEnd(how: 'whole' | 'cut'): void {
    if (this.#isEnded) return
    if (this.#waiting) return void this.#waiting.push(() => this.#onBackendEnd(how))
    const { rest } = this.#reader
    this.#reader.end()
    const { meter } = this.#generation
    // An error as plain JSON, from a backend that had not begun to stream.
    if (!meter.sawContent && isErrorBody(rest)) {
      return this.#onError({ event: undefined, data: rest })
    }
    // After a clean end, only the choices that came must have finished (`complete`); after a cut, all that were asked for.
    const isComplete = how === 'whole' ? meter.complete : meter.finished
    // `rest` is an event without its end, or an answer that is no stream. No client gets it, but it was generated, so it is
    // metered. JSON that was cut is not metered: a key or role without its end would be taken for generated text.
    if (rest.trimEnd().endsWith('}')) meter.wasted({ head: rest, tail: rest, bytes: rest.length })
    this.#end(isComplete ? { kind: 'complete' } : { kind: 'failed', error: incomplete(meter) })
  }

  readonly #onAbort = () => {
    const reason: unknown = this.#signal.reason
    if (reason instanceof ClientLeft) this.#end({ kind: 'left' })
    else this.#end({ kind: 'failed', error: asGatewayError(reason) })
  }

  /** What the backend has already sent is counted even if nobody gets it, because it was generated. */
  readonly #onDepart = (reason: unknown) => {
    if (this.#isDeparting || this.#isEnded) return
    this.#isDeparting = true
    this.#pacing.hurry()
    this.#goOn()
    this.#isUnwanted = isUnwanted(reason)
    const { deadline, meter } = this.#generation
    this.backend.stream.resume()
    // After a finish, the relay waits for the usage as if nobody had left.
    const isOver = () => this.#isEnded || meter.finished
    void untilQuiet(() => this.#reads, isOver).then(() => {
      if (!isOver()) deadline.cancel(reason)
    })
  }

  readonly #goOn = (): void => {
    const waiting = this.#waiting
    if (!waiting) return
    this.#waiting = undefined
    // An event may pause the answer again: then those after it go on waiting.
    for (const next of waiting) next()
    if (this.#isEnded || this.#waiting) return
    this.#flushSoon()
    this.#generation.deadline.resume()
    this.backend.stream.resume()
  }

  #open(): void {
    this.#isOpen = true
    this.#opened.resolve()
  }

  /** One write for all that one read brought: a busy backend sends several events at once. */
  #flushSoon(): void {
    if (this.#isFlushDue) return
    this.#isFlushDue = true
    process.nextTick(this.#flush)
  }

  readonly #flush = (): void => {
    this.#isFlushDue = false
    const out = this.#out
    // Once the end is known, `pump` returns what is left, to be written together with the terminal.
    if (!out || this.#isEnded || this.#frames === '') return
    this.#heartbeat?.refresh()
    if (out.write(this.#takeFrames())) this.#pacing.rest()
    else void this.#waitForClient(out)
  }

  #takeFrames(): string {
    this.#generation.x.facts.flushes++
    const frames = this.#frames
    this.#frames = ''
    return frames
  }

  /** Pauses the backend's socket; the backend's silence is then not its fault. */
  async #waitForClient(out: StreamOut): Promise<void> {
    // After the end, the backend's answer is read without a pause, so that the connection can be used again. After a
    // finish too: a client that takes nothing must not hide the usage.
    const { deadline, meter } = this.#generation
    if (this.#isEnded || this.#isDeparting || meter.finished) return
    this.backend.stream.pause()
    deadline.pause()
    await out.drained()
    if (this.#isEnded || this.#waiting) return
    deadline.resume()
    this.backend.stream.resume()
  }

  #end(ending: Ending): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#ended.resolve(ending)
    if (ending.kind === 'complete') this.#pacing.finish()
    else this.#pacing.abort()
  }

  #release(): void {
    this.#afterFinish?.clear()
    this.#heartbeat?.clear()
    this.#signal.removeEventListener('abort', this.#onAbort)
  }

  #outcome(ending: Ending): Outcome {
    const error = this.#generation.cancelled ?? ('error' in ending ? ending.error : undefined)
    return {
      ...outcome(this.#generation, 200),
      clientLeft: ending.kind === 'left' || this.#out?.left === true,
      complete: ending.kind === 'complete' || ending.kind === 'length',
      cut: ending.kind === 'length' && ending.cut,
      ...(error && { error }),
    }
  }
}
