// How a backend's stream is read. When events have been handed on, its socket can rest for a while: what comes meanwhile is
// read at once, parsed at once and written at once, which costs a fraction of doing it event by event. Nothing is lost, as
// the backend's bytes wait in the system's buffers. Knows nothing of what the bytes mean.

import type { Socket } from 'node:net'
import type { BackendAnswer } from '../backend/forward.ts'

/** How long a backend may take to close its answer after [DONE], so that the connection can be used again. */
const closingMs = 1000

export class Pacing {
  readonly #backend: BackendAnswer
  readonly #socket: Socket
  readonly #restMs: number
  #timer: NodeJS.Timeout | undefined
  #isResting = false
  #isHurried = false

  /** `restMs` 0: no rests. */
  constructor(backend: BackendAnswer, restMs: number) {
    this.#backend = backend
    // Kept here, because the answer gives its socket up when it ends.
    this.#socket = backend.stream.socket
    this.#restMs = restMs
  }

  get rests(): boolean {
    return this.#restMs > 0
  }

  /** Reads nothing for `restMs`. Called when events have been handed on. */
  rest(): void {
    if (this.#restMs === 0 || this.#isResting || this.#isHurried) return
    this.#isResting = true
    // After each read, http resumes the socket in a tick of its own. That one is due first, so the pause holds.
    process.nextTick(this.#pause)
    this.#timer = setTimeout(this.#goOn, this.#restMs)
  }

  /** Ends the rest, and all further ones. */
  hurry(): void {
    this.#isHurried = true
    clearTimeout(this.#timer)
    this.#goOn()
  }

  /** Reads the answer to its end, so that its connection can be used again. */
  finish(): void {
    this.hurry()
    const closing = setTimeout(() => this.#backend.abort(), closingMs)
    void this.#backend.ended.then(() => clearTimeout(closing))
    this.#backend.stream.resume()
  }

  /** Closes the connection, unless the answer has ended. */
  abort(): void {
    this.hurry()
    this.#backend.abort()
  }

  readonly #pause = (): void => {
    // After the whole answer, the socket may be another request's.
    if (this.#isResting && !this.#backend.stream.complete) this.#socket.pause()
  }

  readonly #goOn = (): void => {
    if (!this.#isResting) return
    this.#isResting = false
    this.#socket.resume()
  }
}
