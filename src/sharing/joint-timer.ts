// Timers for many that may be called a little early. Those whose time is over in the same step are called in the same turn
// of the event loop: what they send goes out as one write, and the replies come as one read. Keeps no process alive.

type Callback = () => void

export class JointTimer {
  readonly #stepMs: number
  /** By the number of the step; some may have been set anew or cleared since. */
  readonly #callsOf = new Map<number, Set<Callback>>()
  readonly #stepOf = new Map<Callback, number>()

  constructor(stepMs: number) {
    this.#stepMs = stepMs
  }

  /** Calls it once, after at most `ms`, and at most `stepMs` earlier. What was set for it before does not count any more. */
  set(call: Callback, ms: number): void {
    const now = performance.now()
    const step = Math.floor((now + ms) / this.#stepMs)
    this.#stepOf.set(call, step)
    const calls = this.#callsOf.get(step)
    if (calls) return void calls.add(call)
    this.#callsOf.set(step, new Set([call]))
    setTimeout(() => this.#end(step), step * this.#stepMs - now).unref()
  }

  clear(call: Callback): void {
    this.#stepOf.delete(call)
  }

  #end(step: number): void {
    const calls = this.#callsOf.get(step) ?? []
    this.#callsOf.delete(step)
    for (const call of calls) {
      if (this.#stepOf.get(call) !== step) continue
      this.#stepOf.delete(call)
      call()
    }
  }
}
