// The clocks of one backend request: first token, then silence, and the whole; of a generation that is not streamed the
// whole alone, since to end it earlier would give away what nobody has counted yet. Each ends it by aborting `signal`;
// so does whoever waits for the answer, by `parent`.

import { GatewayError } from '../errors.ts'
import type { Model } from '../config/config.ts'

export interface DeadlineOptions {
  readonly timeouts: Model['timeouts']
  readonly parent: AbortSignal
  /** Another try would be another generation, which somebody pays for. */
  readonly generates: boolean
  readonly stream: boolean
}

export class Deadline {
  readonly #controller = new AbortController()
  readonly #idleMs: number
  readonly #generates: boolean
  #hasStarted = false
  readonly #total: NodeJS.Timeout
  #silence: NodeJS.Timeout
  readonly #parent: AbortSignal
  readonly #onParent = () => this.depart(this.#parent.reason)
  /** Reads what has come before it lets go. */
  #onDepart: ((reason: unknown) => void) | undefined

  constructor({ timeouts, parent, generates, stream }: DeadlineOptions) {
    this.#idleMs = timeouts.idleMs
    this.#generates = generates
    const firstMs = generates && !stream ? timeouts.totalMs : timeouts.firstTokenMs
    this.#total = setTimeout(this.#expire, timeouts.totalMs)
    this.#silence = setTimeout(this.#expire, firstMs)
    this.#parent = parent
    if (parent.aborted) this.cancel(parent.reason)
    else parent.addEventListener('abort', this.#onParent, { once: true })
  }

  /** Its reason is a GatewayError, or a ClientLeft. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** The first content came: from now on silence is measured from event to event. */
  started(): void {
    this.#hasStarted = true
    clearTimeout(this.#silence)
    this.#silence = setTimeout(this.#expire, this.#idleMs)
  }

  /** An event came. Comments are none: a server shutting down may send nothing else. Before the first content nothing counts. */
  heard(): void {
    if (this.#hasStarted) this.#silence.refresh()
  }

  /** Our client takes nothing: the backend's silence is not its fault. */
  pause(): void {
    if (this.#hasStarted) clearTimeout(this.#silence)
  }

  /** It takes more. */
  resume(): void {
    if (this.#hasStarted) this.started()
  }

  /** All is generated: to abort now saves nothing, and the usage is still to come. */
  finished(): void {
    this.#parent.removeEventListener('abort', this.#onParent)
  }

  /** Ends the backend request. */
  cancel(reason: unknown): void {
    this.#controller.abort(reason)
  }

  /** Nobody waits for it any more, for this reason. */
  depart(reason: unknown): void {
    const isEnd = reason instanceof GatewayError && reason.code !== 'message_cancelled'
    if (isEnd || !this.#onDepart) this.cancel(reason)
    else this.#onDepart(reason)
  }

  /** `listener` is told of a departure in place of an end; it must call `cancel`. */
  onDepart(listener: (reason: unknown) => void): void {
    this.#onDepart = listener
  }

  stop(): void {
    clearTimeout(this.#total)
    clearTimeout(this.#silence)
    this.#parent.removeEventListener('abort', this.#onParent)
  }

  readonly #expire = () => {
    const retry = !this.#generates
    this.#controller.abort(new GatewayError('upstream_timeout', { source: 'backend', retry }))
  }
}
