// One admitted request: what it may cost, what it has cost so far, and how its work is told to stop.

import type { LimitStates } from '../errors.ts'
import type { ExcusedCode } from './library.ts'
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
  /** The part of `charge` that shadow mode waived. Not known while the settlement waits. */
  readonly waived: number
  /** Redis is away or refuses: the settlement waits, on disk if the disk takes it. */
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
  /** The key had limits of requests or tokens a minute of its own. */
  readonly keyHasLimits: boolean
  readonly plan: string
  /** Model id, percent-encoded. */
  readonly model: string
  /** JSON. */
  readonly meta: string
  readonly limits: LimitStates
  /** What the tokens-a-minute limit counted, and in which minute. */
  readonly countedTokens: number
  readonly minute: number
  /** Missing money does not stop its work. */
  readonly isShadow: boolean
  /** In shadow mode: what would have refused it. */
  readonly wouldRefuse: ExcusedCode | undefined
  /** Balance tokens that the account had available before this hold. */
  readonly available: number
}

export class Hold implements Linked<Hold> {
  readonly fields: HoldFields
  /** Set by the ledger alone, when the hold's work has ended. */
  settlement: Promise<Settled> | undefined
  // For the list of leases alone.
  isListed = false
  previous: Hold | undefined
  next: Hold | undefined
  #read: (() => Progress) | undefined
  #gauge: (() => Promise<void>) | undefined
  #amount: number
  #isLowered = false
  #stopped: StopReason | undefined
  #wouldStop = false
  #listener: ((reason: StopReason) => void) | undefined
  #onSpent: (() => void) | undefined

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

  /** `read` is called at each checkpoint, so that nothing has to be added up per event; `gauge` before that, for what has to be counted. */
  watch(read: () => Progress, gauge?: () => Promise<void>): void {
    this.#read = read
    this.#gauge = gauge
  }

  /** For the ledger alone, ahead of a checkpoint. Never rejects. */
  async gauge(): Promise<void> {
    // What cannot be counted stays as it was estimated.
    await this.#gauge?.().catch(() => undefined)
  }

  /** The most that the request may cost in all. Shrinks where a lost hold was opened again with less; grows where it is held in slices. */
  get amount(): number {
    return this.#amount
  }

  get isStopped(): boolean {
    return this.#stopped !== undefined
  }

  /** In shadow mode: the work has used up its money, and goes on. */
  get wouldStop(): boolean {
    return this.#wouldStop
  }

  /** The listener is called once, also for a stop that came before. It must stop the work; the hold is settled when the work ends. */
  onStop(listener: (reason: StopReason) => void): void {
    this.#listener = listener
    if (this.#stopped) listener(this.#stopped)
  }

  /** For the ledger alone. */
  stop(reason: StopReason): void {
    if (this.fields.isShadow && reason === 'insufficient_balance') {
      this.#wouldStop = true
      return
    }
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

  /** For the ledger alone: `amount` is all that the hold has after an extension, what a reaping of it has charged included. */
  extended({ amount }: { readonly amount: number }): void {
    this.#amount = amount
  }

  /** Instead of a stop, the listener is called when a hold that was opened again with less is used up: it may extend the hold. */
  onSpent(listener: () => void): void {
    this.#onSpent = listener
  }

  /** For the ledger alone. Checks only a hold that was opened again with less. Any other hold needs no check: its output was bounded to what it pays for, or slices.ts extends it in time, or shadow mode lets the output exceed it. */
  stopIfSpent(): void {
    if (!this.#isLowered || this.progress.charge < this.#amount) return
    if (this.#onSpent) this.#onSpent()
    else this.stop('insufficient_balance')
  }
}
