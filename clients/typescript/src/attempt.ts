// One request and its answer, read piece by piece. Promises that each wait ends: when data comes, by a time-out, or by
// the caller's signal. Does not try again, and knows neither paths nor keys.

import { dispatcherFor, isRefusedRedirect } from './dispatcher.ts'
import { ConnectionError, TimeoutError, errorOfRedirect } from './errors.ts'
import { isRefusal, unref } from './runtime.ts'

export type Send = (url: string, init: RequestInit) => Promise<Response>

export interface Sending {
  readonly url: string
  /** By default the runtime's fetch. */
  readonly send: Send | undefined
  readonly connectMs: number
  /** The time-out from the request to the answer's head; `Attempt.touch` restarts it. */
  readonly headMs: number
  /** The time-out between two pieces of the answer. */
  readonly idleMs: number
  readonly signal: AbortSignal | undefined
}

interface Wait {
  readonly ms: number
  readonly what: string
  /** Whether the server may know of the request. */
  readonly isReached: boolean
}

/** How long and how much is read after the end, so that the connection can be used again. */
const behindMs = 500
const maxBehind = 65_536
const longestMs = 2 ** 31 - 1

export class Attempt {
  readonly #abort = new AbortController()
  readonly #idle: Wait
  readonly #head: Wait
  readonly #leave = () => this.close(this.#signal?.reason)
  #signal: AbortSignal | undefined
  #response: Response | undefined
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  private constructor({ idleMs, headMs, signal }: Sending) {
    this.#idle = { ms: idleMs, what: 'Nothing came', isReached: true }
    this.#head = { ms: headMs, what: 'No answer came', isReached: true }
    this.obey(signal)
  }

  /** `init` is called when the attempt exists, so that a body can report to it what has been sent. */
  static async start(sending: Sending, init: (attempt: Attempt) => RequestInit): Promise<Attempt> {
    const attempt = new Attempt(sending)
    try {
      await attempt.#open(sending, init(attempt))
      if (!attempt.response.body) attempt.#release()
      return attempt
    } catch (error) {
      attempt.close()
      throw error
    } finally {
      attempt.#rest()
    }
  }

  get idleMs(): number {
    return this.#idle.ms
  }

  get response(): Response {
    if (!this.#response) throw new TypeError('not answered yet')
    return this.#response
  }

  /** Replaces the signal that ends the attempt. Throws the reason if this signal has already fired. */
  obey(signal: AbortSignal | undefined): this {
    this.#release()
    this.#signal = signal
    signal?.throwIfAborted()
    signal?.addEventListener('abort', this.#leave, { once: true })
    return this
  }

  /** Something was sent: restarts the wait for the head. Returns false when the attempt has ended. */
  touch(): boolean {
    if (this.#abort.signal.aborted) return false
    if (!this.#response) this.#wait(this.#head)
    return true
  }

  /** The reason of the signal, if the signal has ended the attempt. */
  throwIfClosed(): void {
    this.#abort.signal.throwIfAborted()
  }

  /** The next piece; undefined at the end. Waits no longer than the idle time-out. */
  async read(): Promise<Uint8Array | undefined> {
    const { body } = this.response
    if (!body) {
      this.#release()
      return undefined
    }
    const { signal } = this.#abort
    this.throwIfClosed()
    this.#reader ??= body.getReader()
    this.#wait(this.#idle)
    try {
      const { value, done } = await this.#reader.read()
      // A fetch given by the caller may ignore signals: but its reader, once cancelled, reports the end.
      signal.throwIfAborted()
      if (done) this.#release()
      return value
    } catch (cause) {
      this.#release()
      if (signal.aborted) throw signal.reason
      throw new ConnectionError('The connection was lost in the middle of the answer.', { cause })
    } finally {
      this.#rest()
    }
  }

  /** Closes the connection, unless the answer was read to its end. */
  close(reason?: unknown): void {
    if (this.#abort.signal.aborted) return
    this.#release()
    this.#rest()
    this.#abort.abort(reason)
    this.#cancel()
  }

  /** Reads the little that may be left, then closes. Returns at once. */
  finish(): void {
    const timer = setTimeout(() => this.close(), behindMs)
    unref(timer)
    const drain = async () => {
      for (let left = maxBehind; left > 0;) {
        const piece = await this.read()
        if (!piece) return
        left -= piece.length
      }
    }
    const end = () => {
      clearTimeout(timer)
      this.close()
    }
    // The answer is complete, so a failure of its connection does not matter.
    drain().then(end, end)
  }

  async #open({ url, send, connectMs }: Sending, init: RequestInit): Promise<void> {
    const { signal } = this.#abort
    let isReached: boolean | undefined
    const watcher = {
      onDispatch: () => {
        isReached = false
        this.#wait({ ms: connectMs, what: 'No connection was made', isReached })
      },
      onConnect: () => {
        isReached = true
        this.#wait(this.#head)
      },
    }
    this.#wait(this.#head)
    const dispatcher = send ? undefined : dispatcherFor(watcher)
    try {
      // Looked up at each call, so that a replaced global fetch is used, for example in tests.
      this.#response = await (send ?? fetch)(url, { ...init, ...dispatcher, signal })
      // A fetch given by the caller may ignore signals.
      if (signal.aborted) this.#cancel()
      signal.throwIfAborted()
    } catch (cause) {
      if (signal.aborted) throw signal.reason
      if (isRefusedRedirect(cause)) throw errorOfRedirect()
      isReached ??= !isRefusal(cause)
      throw new ConnectionError(`The connection failed${codeOf(cause)}.`, { cause, isReached })
    }
  }

  #cancel(): void {
    const cancelled = this.#reader ? this.#reader.cancel() : this.#response?.body?.cancel()
    // The signal tells the reader.
    cancelled?.catch(() => undefined)
  }

  #wait({ ms, what, isReached }: Wait): void {
    this.#rest()
    // setTimeout takes longer times for 0, and would fire at once.
    if (ms > longestMs) return
    const end = () => this.close(new TimeoutError(`${what} for ${ms} ms.`, { isReached }))
    this.#timer = setTimeout(end, ms)
    unref(this.#timer)
  }

  #rest(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #release(): void {
    this.#signal?.removeEventListener('abort', this.#leave)
  }
}

/** The code, such as ECONNREFUSED, which Node puts on the error's cause. */
function codeOf(error: unknown): string {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } }
  const word = cause?.code ?? code
  return typeof word === 'string' ? ` (${word})` : ''
}
