// Each wait at the end of a run has a bound. What is still open then is a fault, and what follows is checked all the same.

export class Bounds {
  /** What took too long. */
  readonly left: string[] = []

  /** Waits `ms` at most. The work may go on later; then nobody waits for it, and the result is undefined. */
  async wait<T>(what: string, ms: number, work: Promise<T>): Promise<T | undefined> {
    const late = Promise.withResolvers<undefined>()
    const timer = setTimeout(() => {
      this.left.push(`left over: ${what}, after ${ms / 1000} s`)
      late.resolve(undefined)
    }, ms)
    try {
      return await Promise.race([work, late.promise])
    } finally {
      clearTimeout(timer)
    }
  }
}
