// The steps of a round, each of which may fail: what fails once is logged and left for the next round, and does not keep
// the others from it. If many fail in a row, the store is away, and the round ends.

import { hasCode } from '../../errors.ts'
import type { Log } from '../../log.ts'

const mostFailures = 8

export class Attempts {
  readonly #log: Pick<Log, 'warn'>
  #inARow = 0
  #all = 0

  constructor(log: Pick<Log, 'warn'>) {
    this.#log = log
  }

  /** How many have failed in all. */
  get failures(): number {
    return this.#all
  }

  /** What the work resolves with; false if it failed. Throws when there is no point in going on. */
  async make(what: string, work: () => Promise<boolean>): Promise<boolean> {
    try {
      const isDone = await work()
      this.#inARow = 0
      return isDone
    } catch (error) {
      this.#all++
      if (hasCode(error, 'ledger_unavailable') || ++this.#inARow >= mostFailures) throw error
      this.#log.warn(
        { err: error, what },
        'a session could not be moved: the next round tries again',
      )
      return false
    }
  }
}
