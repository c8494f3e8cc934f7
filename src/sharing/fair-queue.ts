// What waits, fair by account: accounts are served in turn, however much each of them has waiting; within an account the
// first comes first, unless the caller says otherwise. The caller bounds it, and decides who can be served.

export class FairQueue<T> {
  /** The accounts in the order in which they are served; one that was served goes to the end. */
  readonly #waiting = new Map<string, T[]>()
  #size = 0

  get size(): number {
    return this.#size
  }

  /** `isBefore` says which of the account's other items the new one goes before; by default it goes behind all of them. */
  add(account: string, item: T, isBefore: (other: T) => boolean = () => false): void {
    const own = this.#waiting.get(account) ?? []
    own.splice(own.findLastIndex((other) => !isBefore(other)) + 1, 0, item)
    this.#waiting.set(account, own)
    this.#size++
  }

  /** Returns false when the item was not there. */
  delete(account: string, item: T): boolean {
    const own = this.#waiting.get(account)
    const at = own?.indexOf(item) ?? -1
    if (!own || at < 0) return false
    own.splice(at, 1)
    if (own.length === 0) this.#waiting.delete(account)
    this.#size--
    return true
  }

  /** Serves the next one that can be: `take` returns whether it was served. Returns false when none was. */
  serve(take: (item: T) => boolean): boolean {
    for (const [account, own] of this.#waiting) {
      const item = own.find(take)
      if (item === undefined) continue
      this.delete(account, item)
      // A Map keeps the order of insertion.
      if (this.#waiting.delete(account)) this.#waiting.set(account, own)
      return true
    }
    return false
  }

  /**
   * Makes room for one more item of `account`: takes out the newest item of the account that has most, but only if
   * `account` would still have fewer items than that one.
   */
  displace(account: string): T | undefined {
    let most: readonly [string, T[]] | undefined
    for (const one of this.#waiting) {
      if (one[1].length > (most?.[1].length ?? 0)) most = one
    }
    const own = this.#waiting.get(account)?.length ?? 0
    const newest = most?.[1].at(-1)
    if (!most || newest === undefined || own + 1 >= most[1].length) return undefined
    this.delete(most[0], newest)
    return newest
  }

  items(): T[] {
    return [...this.#waiting.values()].flat()
  }
}
