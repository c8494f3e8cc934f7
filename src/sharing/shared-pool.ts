// A bounded pool that accounts share: bytes, slots, readers. An account may take more only while what it has stays below
// what is still free, so one alone gets half, n greedy ones get 1/(n+1) each, and a newcomer always finds as much as
// each of them has (dynamic thresholds: Choudhury and Hahne, 1998). It knows no reasons, no waiting and no clocks.

export class SharedPool {
  readonly #total: number
  readonly #byAccount = new Map<string, number>()
  #used = 0

  constructor(total: number) {
    this.#total = total
  }

  get used(): number {
    return this.#used
  }

  usedBy(ref: string): number {
    return this.#byAccount.get(ref) ?? 0
  }

  /** Whether the account got `amount` more. What was taken has to be given back by `give`. */
  take(ref: string, amount: number): boolean {
    const after = this.usedBy(ref) + amount
    if (after > this.#total - this.#used - amount) return false
    this.#byAccount.set(ref, after)
    this.#used += amount
    return true
  }

  give(ref: string, amount: number): void {
    const left = this.usedBy(ref) - amount
    if (left > 0) this.#byAccount.set(ref, left)
    else this.#byAccount.delete(ref)
    this.#used -= amount
  }
}
