// Continues an answer that broke off: asks for the rest, a few times, as long as that brings something new. Promises to
// end when the caller's signal fires, or when the reader leaves.

import type { Attempt } from './attempt.ts'
import { clock } from './clock.ts'
import { APIError, ConnectionError, IncompleteStreamError } from './errors.ts'
import { waitAfter } from './retry.ts'

/** Attempts in a row without progress. */
const maxAttempts = 5

export class Again {
  readonly #left = new AbortController()
  readonly #given: AbortSignal | undefined
  #attempts = 0

  /** `given`: the caller's signal. */
  constructor(given: AbortSignal | undefined) {
    this.#given = given
  }

  /** Call it when something new has come: it restarts the count of attempts. */
  progress(): void {
    this.#attempts = 0
  }

  leave(reason?: unknown): void {
    this.#left.abort(reason)
  }

  /** Throws the reason of the caller's signal or of the reader: it is not a failure of an attempt. */
  throwIfLeft(): void {
    this.#given?.throwIfAborted()
    this.#left.signal.throwIfAborted()
  }

  /** `open` makes one attempt. Rejects at once with any error but a lost connection or a passing refusal. */
  async open(lost: unknown, open: (signal: AbortSignal) => Promise<Attempt>): Promise<Attempt> {
    let cause = lost
    while (this.#attempts < maxAttempts) {
      const wait = waitAfter(cause, this.#attempts++)
      try {
        return await this.during(async (signal) => {
          await clock.sleep(wait, signal)
          return (await open(signal)).obey(this.#given)
        })
      } catch (error) {
        this.throwIfLeft()
        if (!isPassing(error)) throw error
        cause = error
      }
    }
    const words = `The connection broke off, and ${maxAttempts} attempts to go on brought nothing new.`
    throw new IncompleteStreamError(words, { cause })
  }

  /** Runs `work` with a signal that also fires when the caller's own does. */
  async during<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const given = this.#given
    given?.throwIfAborted()
    const leave = () => this.leave(given?.reason)
    given?.addEventListener('abort', leave, { once: true })
    try {
      return await work(this.#left.signal)
    } finally {
      given?.removeEventListener('abort', leave)
    }
  }
}

function isPassing(error: unknown): boolean {
  return error instanceof ConnectionError || (error instanceof APIError && error.isRetriable)
}
