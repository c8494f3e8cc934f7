// FairTurns runs the work of accounts: at most `most` at a time, and one for each account, so that an account that asks
// for much waits for its own work. inTurns runs long work on the event loop: in pieces of a few milliseconds, one piece
// in a turn of the loop, accounts in turn. There are no time-outs; the callers bound how many may wait.

/** The turn of all operators, in place of an account's ref: no account has this one. */
export const operatorTurn = 'operator'

export class FairTurns {
  readonly #most: number
  readonly #running = new Set<string>()
  readonly #waiting = new Map<string, (() => void)[]>()

  constructor(most: number) {
    this.#most = most
  }

  async run<T>(ref: string, work: () => Promise<T>): Promise<T> {
    const hasTurn = this.#running.size < this.#most && !this.#running.has(ref)
    if (hasTurn) this.#running.add(ref)
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
   * `#waiting` has the accounts in the order in which they are served; an account that gets its turn goes to the end.
   * At most one account can begin: until now either all waiting accounts had work running, or `most` of them had.
   */
  #next(): void {
    for (const [ref, turns] of this.#waiting) {
      if (this.#running.has(ref)) continue
      const begin = turns.shift()
      this.#running.add(ref)
      // A Map keeps the order of insertion.
      this.#waiting.delete(ref)
      if (turns.length > 0) this.#waiting.set(ref, turns)
      begin?.()
      return
    }
  }
}

const pieceMs = 4
const byAccount = new FairTurns(Infinity)

/** Calls `step` until it returns a result. Within an account, the work that began first ends first. Rejects with what `step` throws. */
export function inTurns<T>(ref: string, step: () => T | undefined): Promise<T> {
  return byAccount.run(ref, async () => {
    for (;;) {
      await nextTurn()
      const until = performance.now() + pieceMs
      do {
        const result = step()
        if (result !== undefined) return result
      } while (performance.now() < until)
    }
  })
}

/** One entry for each account that has work to do. */
const waiting: (() => void)[] = []

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(giveTurn)
  })
}

function giveTurn(): void {
  const resume = waiting.shift()
  if (waiting.length > 0) setImmediate(giveTurn)
  resume?.()
}
