// Work that is done a few at a time, account by account: who asks for much waits behind himself, not before others.
// Knows no time-outs; how many may wait is bounded by those who ask.

export class FairTurns {
  readonly #most: number
  readonly #waiting = new Map<string, (() => void)[]>()
  #running = 0

  constructor(most: number) {
    this.#most = most
  }

  async run<T>(ref: string, work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#most) this.#running++
    else await this.#turn(ref)
    try {
      return await work()
    } finally {
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

  /** Accounts stand in the order in which they are served; one that has had its turn goes behind the others. */
  #next(): void {
    const [first] = this.#waiting
    if (!first) {
      this.#running--
      return
    }
    const [ref, turns] = first
    const resolve = turns.shift()
    this.#waiting.delete(ref)
    if (turns.length > 0) this.#waiting.set(ref, turns)
    resolve?.()
  }
}
