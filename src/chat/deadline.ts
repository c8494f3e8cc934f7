// The clocks of one generation: for each target that is asked, the time to the first token, then silence; for all of
// them together the whole time. A generation that is not streamed has only the last one, because to end it earlier would
// give away tokens that nobody has counted yet. Each clock ends the request by aborting `signal`. Whoever waits for the
// answer can end the request, too, by `parent`. A target is silent only if nothing can be read from it when its time is
// over: a gateway that stood still does not blame it.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { GatewayError } from '../errors.ts'
import { PatientTimer } from '../sharing/patience.ts'
import type { Model } from '../config/config.ts'

export interface DeadlineOptions {
  readonly timeouts: Model['timeouts']
  readonly parent: AbortSignal
  /** Whether it generates: then another try would be another generation, which somebody pays for. */
  readonly generates: boolean
  readonly stream: boolean
}

/** Whether an answer that ends for this reason is no longer wanted: the client has left, or has cancelled its message. */
export function isUnwanted(reason: unknown): boolean {
  return !(reason instanceof GatewayError) || reason.code === 'message_cancelled'
}

export class Deadline {
  #controller = new AbortController()
  readonly #idleMs: number
  /** Undefined for a generation that is not streamed. */
  readonly #firstMs: number | undefined
  readonly #generates: boolean
  #hasStarted = false
  #isPaused = false
  #isOver = false
  readonly #total: NodeJS.Timeout
  #silence: PatientTimer | undefined
  readonly #parent: AbortSignal
  readonly #onParent = () => this.depart(this.#parent.reason)
  /** Reads what has already come, then calls `cancel`. */
  #onDepart: ((reason: unknown) => void) | undefined
  #isReadLate = false

  constructor({ timeouts, parent, generates, stream }: DeadlineOptions) {
    this.#idleMs = timeouts.idleMs
    this.#firstMs = generates && !stream ? undefined : timeouts.firstTokenMs
    this.#generates = generates
    this.#total = setTimeout(() => this.#expire(this.cancel), timeouts.totalMs)
    this.#parent = parent
    if (parent.aborted) this.cancel(parent.reason)
    else parent.addEventListener('abort', this.#onParent, { once: true })
  }

  /**
   * Aborts the request to one target; `waiting` and `asking` may make a new one. Its reason is a GatewayError, or a
   * ClientLeft.
   */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** No other target may be asked: the whole time has passed, or the generation was ended. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** No target is asked: only the whole time runs. */
  waiting(): void {
    this.#onDepart = undefined
    this.#isPaused = false
    this.#silence?.clear()
    const mayGoOn = this.signal.aborted && !this.#isOver
    if (mayGoOn) this.#controller = new AbortController()
  }

  /** Called before a target is asked: its first content has the whole of `first_token`. */
  asking(): void {
    this.waiting()
    if (this.#isOver) return
    if (this.#firstMs !== undefined)
      this.#silence = new PatientTimer(this.#onSilence, this.#firstMs)
  }

  /** The first content came: from now on silence is measured from event to event. */
  started(): void {
    this.#hasStarted = true
    this.#silence?.clear()
    // The first content may have paused the answer, if it has used up what is held for it.
    if (!this.#isPaused) this.#silence = new PatientTimer(this.#onSilence, this.#idleMs)
  }

  /** An event came. Comments are not events: a server that is shutting down may send nothing else. Before the first content, no event counts. */
  heard(): void {
    if (this.#hasStarted) this.#silence?.refresh()
  }

  /** The answer is not read now, because the client takes no data or the hold is being extended: the backend's silence is not its fault. */
  pause(): void {
    this.#isPaused = true
    if (this.#hasStarted) this.#silence?.clear()
  }

  /** The answer is read again. */
  resume(): void {
    this.#isPaused = false
    if (this.#hasStarted) this.started()
  }

  /** All is generated. From now on `parent` does not end the request: that would save nothing, and the usage is still to come. */
  finished(): void {
    this.#parent.removeEventListener('abort', this.#onParent)
  }

  /** The answer must end, for this reason. */
  depart(reason: unknown): void {
    this.#depart(reason, this.cancel)
  }

  /**
   * `listener` is called in place of an abort when data may still be unread: when the client has left or has cancelled,
   * and, for any reason, while the answer is paused. It reads what has come, then calls `cancel`, unless the answer has
   * ended. With `isReadLate` (the socket rests between reads, pacing.ts) it is also called for any reason once the
   * first content has come.
   */
  onDepart(listener: (reason: unknown) => void, isReadLate = false): void {
    this.#onDepart = listener
    this.#isReadLate = isReadLate
  }

  stop(): void {
    clearTimeout(this.#total)
    this.#silence?.clear()
    this.#parent.removeEventListener('abort', this.#onParent)
  }

  /** Ends the backend request, and the generation. */
  readonly cancel = (reason: unknown) => {
    this.#isOver = true
    this.#controller.abort(reason)
  }

  /** Another target may still be asked. */
  readonly #onSilence = () => this.#expire((reason) => this.#controller.abort(reason))

  #expire(end: (reason: unknown) => void): void {
    const retry = !this.#generates
    this.#depart(new GatewayError('upstream_timeout', { source: 'backend', retry }), end)
  }

  #depart(reason: unknown, end: (reason: unknown) => void): void {
    const isReadLate = this.#isReadLate && this.#hasStarted
    const mayBeUnread = isUnwanted(reason) || this.#isPaused || isReadLate
    if (mayBeUnread && this.#onDepart) this.#onDepart(reason)
    else end(reason)
  }
}

/**
 * `untilQuiet` waits at most this long. It ends earlier when this many turns of the event loop in a row bring nothing.
 */
const quietMs = 100
const quietTurns = 3

/**
 * Waits until a socket has delivered what the backend had already sent: that was generated, so it counts even if nobody
 * waits for it any more. `reads` counts what came; `isOver` ends the wait at once.
 */
export async function untilQuiet(reads: () => number, isOver: () => boolean): Promise<void> {
  const endsAt = performance.now() + quietMs
  let seen = reads()
  for (let quiet = 0; quiet < quietTurns && !isOver() && performance.now() < endsAt;) {
    await nextTurn()
    quiet = reads() === seen ? quiet + 1 : 0
    seen = reads()
  }
}
