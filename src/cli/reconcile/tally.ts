// Sums of tokens by day and model: what a backend has counted, or the ledger. Both are added up in the same way.

export interface DayCount {
  /** `2026-11-20` */
  readonly day: string
  readonly model: string
  /** Undefined where only the sum of both is known. */
  readonly split?: { readonly prompt: number; readonly completion: number }
  readonly tokens: number
}

/** The most sums. This many take some tens of megabytes. */
const maxSums = 100_000

export class DayTally {
  readonly #sums = new Map<string, DayCount>()

  get sums(): readonly DayCount[] {
    return [...this.#sums.values()]
  }

  of(day: string, model: string): DayCount | undefined {
    return this.#sums.get(nameOf(day, model))
  }

  /** Throws a RangeError, and adds nothing, if there are too many sums or a sum is too large to be exact. */
  add(count: DayCount): void {
    const { day, model } = count
    const before = this.of(day, model)
    const sum = before ? added(before, count) : count
    if (!Number.isSafeInteger(sum.tokens)) throw new RangeError('the sum is too large')
    if (!before && this.#sums.size === maxSums) {
      throw new RangeError(`there are more than ${maxSums} different days and models`)
    }
    this.#sums.set(nameOf(day, model), sum)
  }
}

/** Unique, because a day has no spaces. */
function nameOf(day: string, model: string): string {
  return `${day} ${model}`
}

/** If one of the counts is not split, the sum is not split either. */
function added(a: DayCount, b: DayCount): DayCount {
  const split = a.split &&
    b.split && {
      prompt: a.split.prompt + b.split.prompt,
      completion: a.split.completion + b.split.completion,
    }
  return { ...a, split, tokens: a.tokens + b.tokens }
}
