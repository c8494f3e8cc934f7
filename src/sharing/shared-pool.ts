// A bounded pool that accounts share: bytes, slots, readers. An account may take more only if afterwards it has no more
// than is still free. So one account alone gets half, n greedy accounts get 1/(n+1) each, and a newcomer always finds
// as much as each of them has (dynamic thresholds: Choudhury and Hahne, 1998). Nothing waits here.

export class SharedPool {
  #total: number
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

  /** When the pool gets smaller, what was taken stays taken; nothing more is given until it fits. */
  resize(total: number): void {
    this.#total = total
  }

  /** Returns whether the account got `amount` more. The caller must give it back with `give`. */
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
