// A list of what is under way, for objects that every request adds and removes. Not a Map or a Set: each time V8 makes
// a new table for one, the old table points to the new one. Once an old table is in the old generation, its successors
// survive every minor collection, and with them all exchanges that were in flight, until the next full collection.

/** The links are in the member itself, so it can be in one list at a time. */
export interface Linked<T> {
  /** Written by the list alone, like the other two. */
  isListed: boolean
  previous: T | undefined
  next: T | undefined
}

/** Keeps the order of insertion. */
export class LinkedList<T extends Linked<T>> {
  #first: T | undefined
  #last: T | undefined
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The one that has been in the list for longest. */
  get first(): T | undefined {
    return this.#first
  }

  /** Does nothing when the member is in the list already. */
  add(member: T): void {
    if (member.isListed) return
    member.isListed = true
    member.previous = this.#last
    if (this.#last) this.#last.next = member
    else this.#first = member
    this.#last = member
    this.#size++
  }

  /** Returns false when the member was not in the list. */
  delete(member: T): boolean {
    if (!member.isListed) return false
    const { previous, next } = member
    if (previous) previous.next = next
    else this.#first = next
    if (next) next.previous = previous
    else this.#last = previous
    // What has left must not keep its old neighbours in memory.
    member.isListed = false
    member.previous = undefined
    member.next = undefined
    this.#size--
    return true
  }

  /** A copy: the list may change while the caller goes through it. */
  members(): T[] {
    const all: T[] = []
    for (let one = this.#first; one; one = one.next) all.push(one)
    return all
  }
}
