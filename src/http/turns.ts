// Long work shares the event loop: it is done in pieces of a few milliseconds, one piece a turn of the loop, and of
// several accounts each has its turn. Within an account, what was begun first is finished first, so that few are half done.

const pieceMs = 4

export class Turns {
  /** By account, in the order of their turns. */
  readonly #waiting = new Map<string, (() => void)[]>()
  #isDue = false
  /** Pieces so far. */
  given = 0

  /** Calls `step` until it answers. Rejects with what it throws. */
  async take<T>(ref: string, step: () => T | undefined): Promise<T> {
    await this.#next(ref, 'last')
    for (;;) {
      const until = performance.now() + pieceMs
      do {
        const result = step()
        if (result !== undefined) return result
      } while (performance.now() < until)
      await this.#next(ref, 'first')
    }
  }

  /** Between two pieces of work that have no steps. */
  giveWay(ref: string): Promise<void> {
    return this.#next(ref, 'first')
  }

  #next(ref: string, place: 'first' | 'last'): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const others = this.#waiting.get(ref) ?? []
    if (place === 'first') others.unshift(resolve)
    else others.push(resolve)
    this.#waiting.set(ref, others)
    this.#askForTurn()
    return promise
  }

  #askForTurn(): void {
    if (this.#isDue) return
    this.#isDue = true
    setImmediate(this.#give)
  }

  readonly #give = (): void => {
    this.#isDue = false
    const [next] = this.#waiting
    if (!next) return
    const [ref, [resume, ...others]] = next
    this.#waiting.delete(ref)
    if (others.length > 0) this.#waiting.set(ref, others)
    this.given++
    if (this.#waiting.size > 0) this.#askForTurn()
    resume?.()
  }
}

/** Of this process: it has one event loop. */
export const turns = new Turns()
