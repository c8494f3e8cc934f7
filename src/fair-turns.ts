// Work that is done a few at a time, and of each account one: who asks for much waits behind himself, and what takes long
// of one account leaves the others' places. Knows no time-outs; how many may wait is bounded by those who ask.

export class FairTurns {
  readonly #most: number
  readonly #running = new Set<string>()
  readonly #waiting = new Map<string, (() => void)[]>()

  constructor(most: number) {
    this.#most = most
  }

  async run<T>(ref: string, work: () => Promise<T>): Promise<T> {
    if (this.#running.size < this.#most && !this.#running.has(ref)) this.#running.add(ref)
    else await this.#turn(ref)
    try {
      return await work()
    } finally {
      this.#running.delete(ref)
      this.#next()
    }
  }

  #turn(ref: string): Promise<void> {
    return new Promise((resolve) => {
      const others = this.#waiting.get(ref)
      if (others) others.push(resolve)
      else this.#waiting.set(ref, [resolve])
    })
  }

  /**
   * Accounts stand in the order in which they are served; one that has its turn goes behind the others. No more than one
   * can begin: before, all were at work that waited, or as many as may be.
   */
  #next(): void {
    for (const [ref, turns] of this.#waiting) {
      if (this.#running.has(ref)) continue
      const resolve = turns.shift()
      this.#waiting.delete(ref)
      if (turns.length > 0) this.#waiting.set(ref, turns)
      this.#running.add(ref)
      resolve?.()
      return
    }
  }
}
