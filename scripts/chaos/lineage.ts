// What a fail-over has lost, told from what INFO says of each server. Redis gives each history of writes an id. A replica
// that takes over begins a new history, and INFO says where it has left the old one (`master_replid2` and
// `second_repl_offset`). So the histories are a tree, and a position in one of them is part of another one, or is not.
//
// A primary that becomes a replica throws away what its new primary does not have. What it acknowledged may be lost from
// the last moment at which all that it had is part of the new history, to the moment at which it took no more writes.
// Nothing is lost if it follows the new primary without a full copy.

import type { Span } from './risks.ts'

/** What a server that runs says of itself; the times are those of performance.now(). */
export interface ServerView {
  readonly askedAt: number
  readonly answeredAt: number
  readonly isPrimary: boolean
  /** A replica that is connected to its primary, and has its data. */
  readonly isLinked: boolean
  /** Where it is, in the history that it writes or follows. */
  readonly at: Reached
  /** Where it has left the history that it was in before. */
  readonly left: Reached
}

export interface Reached {
  /** The id of the history. */
  readonly id: string
  readonly offset: number
}

/** Where each history, by its id, begins in another one; undefined if it begins with nothing. */
export type Origins = Map<string, Reached | undefined>

/** A primary has become a replica. */
export interface Demotion {
  readonly at: number
  /** What it acknowledged within these times may be lost. */
  readonly atRisk: readonly Span[]
  /** When it had all that its new primary has. */
  readonly healedAt: number
}

/** A time in which the server took writes. */
interface Reign {
  readonly from: number
  /** Undefined while it goes on. */
  to: number | undefined
  readonly samples: Sample[]
}

/** All that was acknowledged before `askedAt` is at this position, or before it. */
interface Sample extends Reached {
  readonly askedAt: number
}

/** Of one server. */
export class Lineage {
  readonly #origins: Origins
  readonly #onDemotion: (demotion: Demotion) => void
  /** Since it was a replica for the last time; the oldest first. */
  #reigns: Reign[] = []
  #isPrimary = false
  #isDead = false
  /** When it was last known to take no writes. */
  #idleAt: number | undefined
  /** What it said last, in a history that is known. */
  #known: ServerView | undefined

  /** All servers have the same `origins`. */
  constructor(origins: Origins, onDemotion: (demotion: Demotion) => void) {
    this.#origins = origins
    this.#onDemotion = onDemotion
  }

  /** It is no primary any more, and what that has lost is not known yet. */
  get isOpen(): boolean {
    return !this.#isPrimary && this.#reigns.length > 0
  }

  saw(seen: ServerView): void {
    if (seen.isPrimary) this.#sawPrimary(seen)
    else this.#sawReplica(seen)
    this.#isPrimary = seen.isPrimary
    this.#isDead = false
    // A replica that was started again has an id in which nobody has ever written.
    if (this.#origins.has(seen.at.id)) this.#known = seen
  }

  /** It does not run at this time. */
  isDown(at: number): void {
    this.#end(at)
    this.#isDead = true
    this.#idleAt = at
  }

  #sawPrimary(seen: ServerView): void {
    const { at, askedAt } = seen
    if (!this.#origins.has(at.id)) this.#origins.set(at.id, this.#originOf(seen))
    let reign = this.#reigns.at(-1)
    if (reign?.to !== undefined || !reign) {
      reign = { from: this.#idleAt ?? askedAt, to: undefined, samples: [] }
      this.#reigns.push(reign)
    }
    reign.samples.push({ ...at, askedAt })
  }

  #originOf({ left }: ServerView): Reached | undefined {
    if (this.#origins.has(left.id)) return left
    if (!this.#known) return undefined
    // It was started again. The file of a primary has all that it had acknowledged, that of a replica what it had.
    const { at, isPrimary } = this.#known
    return isPrimary ? { ...at, offset: Infinity } : at
  }

  #sawReplica({ askedAt, answeredAt, isLinked, at, left }: ServerView): void {
    // A primary that died may have been one for a moment after its start.
    if (this.#isPrimary && this.#isDead) {
      this.#reigns.push({ from: this.#idleAt ?? askedAt, to: undefined, samples: [] })
    }
    this.#end(answeredAt)
    this.#idleAt = askedAt
    const demotedAt = this.#reigns.at(-1)?.to
    if (demotedAt === undefined || !isLinked || !this.#origins.has(at.id)) return
    const lastId = this.#reigns.flatMap(({ samples }) => samples).at(-1)?.id
    const atRisk = left.id === lastId ? [] : this.#lostTo(at.id)
    this.#reigns = []
    this.#onDemotion({ at: demotedAt, atRisk, healedAt: answeredAt })
  }

  /** What is not part of this history. */
  #lostTo(id: string): readonly Span[] {
    const lost: Span[] = []
    for (const { from, to = from, samples } of this.#reigns.toReversed()) {
      const kept = samples.findLast((one) => isPart(one, id, this.#origins))
      lost.unshift({ from: kept?.askedAt ?? from, to })
      if (kept) break
    }
    return lost
  }

  #end(at: number): void {
    const reign = this.#reigns.at(-1)
    if (reign) reign.to ??= at
  }
}

function isPart({ id, offset }: Reached, history: string, origins: Origins): boolean {
  let end: Reached | undefined = { id: history, offset: Infinity }
  while (end && end.id !== id) end = origins.get(end.id)
  return end !== undefined && offset <= end.offset
}
