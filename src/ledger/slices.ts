// The hold of a stream, made in slices: it begins with the prompt and one slice of output, and is extended before that is
// used up. So several streams share a modest balance, and the backend may generate what the client asked for.
//
// The meter's rough count says when to look; then `count` says what would be charged: what the backend has reported, if that
// covers all, else what the tokenizer counts.
// While a stream has used up what it holds, it is paused. When nothing is available, its work is stopped, but only after
// an exact count, and a last call that asked for more. While Redis is away a stream goes on beyond its hold (docs/money.md,
// promise 7): it asks again a slice later, and owes what it cannot pay. In shadow mode, a stream whose money has run out
// goes on, and no longer asks.

import type { Price } from '../config/config.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'
import type { Extension } from './admit.ts'
import type { Hold } from './hold.ts'
import { charge, outputAfforded } from './price.ts'

export interface SlicedStream {
  readonly hold: Hold
  readonly price: Price
  /** As estimated at admission. */
  readonly promptTokens: number
  /** The most that may be generated, all choices together. */
  readonly outputTokens: number
  /** Output tokens of one slice. */
  readonly slice: number
  /** How much has come, as the meter can tell without counting. */
  roughTokens(): number
  /** Nothing more will be generated. */
  isFinished(): boolean
  countPrompt(): Promise<number>
  /** What the stream would be charged for if it ended now. `promptTokens` counts if the backend has reported no prompt. */
  count(promptTokens: number): Promise<TokenCounts>
  /** Resolves with whether more is available; rejects when Redis is away. */
  extend(hold: Hold, extension: Extension): Promise<boolean>
  /** Nothing more is counted and sent to the client before `until` has resolved. */
  pause(until: Promise<unknown>): void
}

/** The first count comes after at most so many rough tokens: until then, each may stand for several tokens. */
const firstLook = 16
/** Beyond what is used, an extension covers at least a slice divided by this number, if the account has so much available. */
const leastPart = 16

export class Slices {
  /** The meter calls `reached` when it has counted `at` rough tokens, and only while it takes an event. */
  readonly alarm = { at: Infinity, reached: () => this.#reached() }
  readonly #stream: SlicedStream
  /** As last counted. */
  #used: TokenCounts
  /** Rough tokens at the last count, and tokens for each of them. */
  #countedAt = 0
  #density = 1
  /** Rough tokens at which the hold is used up. */
  #limit = 0
  #hasMore = true
  #asking: Promise<void> | undefined
  #prompt: Promise<number> | undefined

  constructor(stream: SlicedStream) {
    this.#stream = stream
    this.#used = { prompt: stream.promptTokens, cached: 0, completion: 0 }
    stream.hold.onSpent(() => this.#look())
    this.#look()
  }

  /** What was used: as counted, and rough since then. */
  get #roughlyUsed(): TokenCounts {
    const since = (this.#stream.roughTokens() - this.#countedAt) * this.#density
    return { ...this.#used, completion: this.#used.completion + Math.max(0, Math.ceil(since)) }
  }

  get #isOver(): boolean {
    const { hold } = this.#stream
    const isStopped = hold.isStopped || hold.wouldStop
    return hold.settlement !== undefined || isStopped || this.#stream.isFinished()
  }

  get #isUsedUp(): boolean {
    return this.#stream.roughTokens() >= this.#limit
  }

  #look(): void {
    this.#limit = this.#affordedRough()
    if (this.#isUsedUp) this.#reached()
    else this.#setAlarm()
  }

  #setAlarm(): void {
    const rough = this.#stream.roughTokens()
    const middle = Math.ceil((this.#limit - rough) / 2)
    const next = rough + Math.min(middle, this.#countedAt === 0 ? firstLook : Infinity)
    const isAllHeld = this.#limit === Infinity
    this.alarm.at = this.#hasMore && !isAllHeld ? next : this.#limit
  }

  #reached(): void {
    // The first alarm begins an extension. The second one, at the limit, pauses the stream if it uses up its hold before the
    // extension has ended. There is no third one until then.
    this.alarm.at = this.#asking || this.#isUsedUp ? Infinity : this.#limit
    if (this.#isOver) return
    this.#asking ??= Promise.resolve().then(() => this.#extend())
    if (this.#isUsedUp) this.#stream.pause(this.#asking)
  }

  async #extend(): Promise<void> {
    do {
      if (this.#isUsedUp) this.#stream.pause(this.#asking ?? Promise.resolve())
      await this.#extendOnce(this.#isUsedUp)
    } while (this.#isUsedUp && !this.#isOver)
    this.#asking = undefined
    if (!this.#isOver) this.#setAlarm()
  }

  /** Stops the work when the hold was used up before this extension and still is, and no more is available. */
  async #extendOnce(wasUsedUp: boolean): Promise<void> {
    const { hold, slice, extend } = this.#stream
    await this.#count(wasUsedUp)
    if (this.#isOver) return
    const { completion } = this.#used
    const least = this.#chargeFor(completion + Math.ceil(slice / leastPart))
    const extension = {
      amount: this.#chargeFor(completion + slice),
      least: Math.max(0, least - hold.amount),
    }
    try {
      this.#hasMore = await extend(hold, extension)
      this.#limit = this.#affordedRough()
    } catch {
      // Redis is away, or refuses.
      this.#hasMore = true
      this.#limit = this.#stream.roughTokens() + slice
    }
    const isAtItsEnd = wasUsedUp && this.#isUsedUp && !this.#hasMore
    if (isAtItsEnd && !this.#isOver) hold.stop('insufficient_balance')
  }

  /** The prompt was estimated high: its tokens are counted before anybody is stopped for them. */
  async #count(isExact: boolean): Promise<void> {
    const { roughTokens, countPrompt, count } = this.#stream
    let [rough, used] = [roughTokens(), this.#roughlyUsed]
    try {
      if (isExact) this.#prompt ??= countPrompt()
      const prompt = await (this.#prompt ?? this.#used.prompt)
      // What comes during the count may be counted twice, until the next count.
      ;[rough, used] = [roughTokens(), this.#roughlyUsed]
      used = await count(prompt)
    } catch {
      // What could not be counted stays as it was estimated.
    }
    this.#used = used
    this.#countedAt = rough
    this.#density = Math.max(1, this.#used.completion / Math.max(1, rough))
  }

  /** Rough tokens at which the hold is used up; Infinity if it pays for all that may be generated. A rough token that it pays for in part still goes out. */
  #affordedRough(): number {
    const { hold, price, outputTokens } = this.#stream
    if (hold.amount >= this.#chargeFor(outputTokens)) return Infinity
    const { prompt, cached, completion } = this.#used
    const paying = { amount: hold.amount, promptTokens: prompt, cachedTokens: cached, choices: 1 }
    const left = outputAfforded(price, paying) - completion
    return this.#countedAt + (left > 0 ? Math.max(1, Math.floor(left / this.#density)) : 0)
  }

  #chargeFor(completion: number): number {
    const { price, outputTokens } = this.#stream
    const { prompt, cached } = this.#used
    return charge(price, { prompt, cached, completion: Math.min(completion, outputTokens) })
  }
}
