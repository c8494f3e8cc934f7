// The slots of those who read streams: each exchange that reads has one of its account's, from before its answer until
// it ends; one that pays for the generation it reads needs none until that has ended.

import type { Exchange } from '../../exchange.ts'
import type { Slots } from '../../sharing/slots.ts'

export class ReaderSlots {
  readonly #slots: Slots
  readonly #leaving = new WeakMap<Exchange, () => void>()

  constructor(slots: Slots) {
    this.#slots = slots
  }

  /** Does nothing for an exchange that has one. */
  take(x: Exchange, ref: string): void {
    if (!this.#leaving.has(x)) this.#leaving.set(x, this.#slots.take(ref))
  }

  leave(x: Exchange): void {
    this.#leaving.get(x)?.()
  }

  /** When `paid` settles, the reader needs a slot; without one, it is cut off. Returns the function that the reader calls when it leaves. */
  takeAfter(paid: Promise<unknown>, ref: string, cut: () => void): () => void {
    let hasLeft = false
    let leave: (() => void) | undefined
    const onEnd = () => {
      if (hasLeft) return
      try {
        leave = this.#slots.take(ref)
      } catch {
        cut()
      }
    }
    paid.then(onEnd, onEnd)
    return () => {
      hasLeft = true
      leave?.()
    }
  }
}
