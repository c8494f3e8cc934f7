// One admitted request: what it may cost, what it has cost so far, and how its work is told to stop.

import type { LimitStates } from '../errors.ts'
import type { Linked } from '../sharing/linked-list.ts'
import { noTokens } from '../tokens/token-counts.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'

/** Totals since the start. */
export interface Progress extends TokenCounts {
  /** Balance tokens. */
  readonly charge: number
}

export const noProgress: Progress = { charge: 0, ...noTokens }

export interface Settled {
  /** Balance tokens for all that was used; while Redis could not be told yet, what the settlement asks for. */
  readonly charge: number
  /** The part of `charge` that the account could not pay then. */
  readonly owed: number
  /** Redis is away: the settlement waits on disk. */
  readonly isWaiting: boolean
}

/** `lost`: the ledger no longer knows the hold and will not open it again. */
export type StopReason = 'account_suspended' | 'insufficient_balance' | 'lost'

export interface HoldFields {
  readonly id: string
  readonly ref: string
  readonly hmac: string
  readonly accountId: string
  readonly accountName: string
  readonly keyId: string
  readonly plan: string
  /** Model id, percent-encoded. */
  readonly model: string
  /** JSON. */
  readonly meta: string
  readonly limits: LimitStates
  /** What the tokens-a-minute limit counted, and in which minute. */
  readonly countedTokens: number
  readonly minute: number
}

export class Hold implements Linked<Hold> {
  readonly fields: HoldFields
  /** For the ledger alone: set when the hold's work has ended. */
  settlement: Promise<Settled> | undefined
  // For the list of leases alone.
  isListed = false
  previous: Hold | undefined
  next: Hold | undefined
  #read: (() => Progress) | undefined
  #amount: number
  #isLowered = false
  #stopped: StopReason | undefined
  #listener: ((reason: StopReason) => void) | undefined

  constructor(fields: HoldFields, amount: number) {
    this.fields = fields
    this.#amount = amount
  }

  get id(): string {
    return this.fields.id
  }

  /** What the request has used and cost so far. */
  get progress(): Progress {
    return this.#read?.() ?? noProgress
  }

  /** `read` is called at each checkpoint, so that nothing has to be added up per event. */
  watch(read: () => Progress): void {
    this.#read = read
  }

  /** The most that the request may cost in all. Shrinks where a lost hold was opened again with less. */
  get amount(): number {
    return this.#amount
  }

  /** The listener is called once, also for a stop that came before. It must stop the work; the hold is settled when the work ends. */
  onStop(listener: (reason: StopReason) => void): void {
    this.#listener = listener
    if (this.#stopped) listener(this.#stopped)
  }

  /** For the ledger alone. */
  stop(reason: StopReason): void {
    if (this.#stopped) return
    this.#stopped = reason
    this.#listener?.(reason)
  }

  /** For the ledger alone: the hold was opened again. */
  reopened(amount: number): void {
    this.#isLowered ||= amount < this.#amount
    this.#amount = Math.min(amount, this.#amount)
    this.stopIfSpent()
  }

  /** For the ledger alone. A hold of its original size needs no check, because its output was bounded to fit. */
  stopIfSpent(): void {
    if (this.#isLowered && this.progress.charge >= this.#amount) this.stop('insufficient_balance')
  }
}
