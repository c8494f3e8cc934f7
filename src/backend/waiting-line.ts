// The requests that wait until a target of a model has room: bounded, fair by account, each for a bounded time. A
// request that finds no room is told when to come back, by the rate at which the line moved.

import type { Model } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import { FairQueue } from '../sharing/fair-queue.ts'

export interface Wait<T> {
  readonly account: string
  /** `performance.now()` at which the request came: those of an account are served in this order. */
  readonly since: number
  /** Ends the wait; its reason is thrown. */
  readonly signal: AbortSignal
  /** `performance.now()` at which the wait ends. */
  readonly until: number
  /** Returns what was waited for, if it is there. */
  take(): T | undefined
}

interface Waiting {
  readonly since: number
  /** Returns whether it was served. */
  serve(): boolean
  refuse(error: GatewayError): void
}

const leastMs = 1000
const mostMs = 300_000

export class WaitingLine {
  readonly #settings: () => Model['queue']
  readonly #queue = new FairQueue<Waiting>()
  #servedAt: number | undefined
  /** A moving mean of the ms from one served request to the next, while others waited. */
  #gapMs: number | undefined

  constructor(settings: () => Model['queue']) {
    this.#settings = settings
  }

  get size(): number {
    return this.#queue.size
  }

  /** Rejects with `upstream_unavailable` when the line is full, the time is over, another account takes the place, or no target may be asked any more. */
  wait<T>({ account, since, signal, until, take }: Wait<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const timer = setTimeout(() => end(this.#refusal()), Math.max(0, until - performance.now()))
      const onAbort = () => end(signal.reason)
      const settle = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
      }
      const end = (reason: unknown) => {
        this.#queue.delete(account, waiting)
        settle()
        reject(reason)
      }
      const waiting: Waiting = {
        since,
        serve() {
          const found = take()
          if (found === undefined) return false
          settle()
          resolve(found)
          return true
        },
        refuse: end,
      }
      signal.addEventListener('abort', onAbort)
      // The time in which nobody waited must not count as a gap between two served requests.
      if (this.#queue.size === 0) this.#servedAt = undefined
      if (signal.aborted) end(signal.reason)
      else if (!this.#makeRoom(account)) end(this.#refusal())
      else this.#queue.add(account, waiting, (other) => since < other.since)
    })
  }

  /** To be called when there may be room. */
  serve(): void {
    while (this.#queue.size > 0 && this.#queue.serve((waiting) => waiting.serve())) this.#measure()
  }

  /** None of those that wait can be served. */
  refuseAll(error: GatewayError): void {
    for (const waiting of this.#queue.items()) waiting.refuse(error)
  }

  #makeRoom(account: string): boolean {
    if (this.#queue.size < this.#settings().length) return true
    const displaced = this.#queue.displace(account)
    displaced?.refuse(this.#refusal())
    return displaced !== undefined
  }

  #measure(): void {
    const now = performance.now()
    if (this.#servedAt !== undefined) {
      const gap = now - this.#servedAt
      this.#gapMs = this.#gapMs === undefined ? gap : 0.8 * this.#gapMs + 0.2 * gap
    }
    this.#servedAt = now
  }

  /** Tells the client to come back when those that wait now will have been served. */
  #refusal(): GatewayError {
    const { waitMs } = this.#settings()
    const gapMs = this.#gapMs
    const drainMs = gapMs === undefined ? waitMs : (this.#queue.size + 1) * gapMs
    const retryAfterMs = Math.min(Math.max(leastMs, drainMs), mostMs)
    return new GatewayError('upstream_unavailable', { source: 'gateway', retryAfterMs })
  }
}
