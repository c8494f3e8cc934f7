// Keeps every settlement and credit until Redis has surely kept it. An order is sent at once. It goes to disk when it could
// not be sent; a credit always does. It is sent again, in order, at every reconnect, and forgotten after 30 s of connected
// time since its reply. Memory is bounded: of the answered orders, the newest 100,000 (about 60 MB) are kept.

import type { ConnectedClock } from './clock.ts'
import { orderKey } from './orders.ts'
import type { CreditOrder, Order, OrderReply, SettleOrder } from './orders.ts'
import { unavailable, wasRefused } from '../redis/scripts.ts'
import { LinkedList } from '../sharing/linked-list.ts'
import type { Linked } from '../sharing/linked-list.ts'
import type { Spool } from './spool.ts'

export interface OutboxOptions {
  /** `isFirst`: the order has never been made, as far as this gateway knows. */
  readonly send: (order: Order, isFirst?: boolean) => Promise<OrderReply>
  readonly isUp: () => boolean
  readonly connected: ConnectedClock
  readonly spool: Spool
  /** Also called for a settlement that was sent again. */
  readonly onSettled: (reply: OrderReply, order: SettleOrder) => void
  readonly onLate: (order: Order) => void
  readonly onProblem: (message: string, cause: unknown) => void
}

interface OutboxEntry extends Linked<OutboxEntry> {
  readonly order: Order
  /** Redis has accepted its newest sending: the entry is in `#answered`. */
  isAnswered: boolean
  /** Redis has accepted some sending of it, perhaps one before a replay. */
  wasAnswered: boolean
  answeredAtMs: number
  /** The spool has it: on disk, or in memory for as long as the disk refuses. */
  isSpooled: boolean
}

/** Redis answered with an error, or did not answer. */
type Failure = 'refused' | 'unreached'

const keepMs = 30_000
const maxAnswered = 100_000
const chunk = 200

export class Outbox {
  readonly #options: OutboxOptions
  /** Orders without an answer yet. */
  readonly #open = new LinkedList<OutboxEntry>()
  /** The open orders that could not be sent. */
  readonly #waiting = new Set<OutboxEntry>()
  /** Answered orders, from index `#oldest` on, by time of answer. A list, because a map of all of the last 30 s would be dear. */
  #answered: (OutboxEntry | undefined)[] = []
  #oldest = 0
  #sending = 0
  #isLateRefused = false
  #onIdle: (() => void)[] = []

  constructor(options: OutboxOptions) {
    this.#options = options
  }

  /** Orders whose answer is not there yet, or that could not be sent. */
  get unanswered(): number {
    return this.#open.size
  }

  /** Settlements and credits that are kept. */
  get size(): number {
    return this.#open.size + this.#answered.length - this.#oldest
  }

  /** Sends in this tick. Resolves with undefined when Redis could not be told; the order then waits on disk. Never rejects. */
  async settle(order: SettleOrder): Promise<OrderReply | undefined> {
    const entry = newEntry(order)
    this.#open.add(entry)
    if (this.#options.isUp()) {
      const reply = await this.#send(entry)
      return typeof reply === 'string' ? undefined : reply
    }
    this.#wait(entry)
    return undefined
  }

  /** Resolves with Redis' answer; a credit that was made is then on disk. Rejects when Redis is away, without keeping anything. Rejects, too, when the disk refuses a credit that was made: memory keeps it. */
  async credit(order: CreditOrder): Promise<OrderReply> {
    const { isUp, send, spool } = this.#options
    if (!isUp()) throw unavailable()
    // To refuse a credit is better than to make it and report a failure.
    if (spool.isFailing) throw unavailable(new Error('the spool can not be written'))
    const reply = await this.#counted(send(order, true))
    if (reply.word !== 'ok') return reply
    const entry = newEntry(order)
    this.#keepAnswered(entry)
    await this.#spool(entry).catch((error: unknown) => {
      throw unavailable(error)
    })
    return reply
  }

  /** Takes the orders of dead processes. */
  adopt(orders: readonly Order[]): void {
    const known = new Set(this.#open.members().map((entry) => orderKey(entry.order)))
    for (const order of orders) {
      const key = orderKey(order)
      if (known.has(key)) continue
      known.add(key)
      const entry = newEntry(order)
      entry.isSpooled = true
      this.#open.add(entry)
      this.#waiting.add(entry)
    }
  }

  /** Sends all orders again: first the answered ones in the order of their answers, then the rest. Rejects when the connection is lost meanwhile. */
  async replay(): Promise<void> {
    await this.#sendAll([...this.#kept(), ...this.#open.members()])
  }

  /** Sends what waits, and forgets what Redis has kept for long enough. */
  async sweep(): Promise<void> {
    const { connected, isUp } = this.#options
    const { ageMs } = connected
    while (this.#oldest < this.#answered.length) {
      const entry = this.#answered[this.#oldest]
      // A place whose entry is not answered any more (it waits again, or was given up) is dropped. An entry that waited again
      // and then was answered again has two places, and is kept until its newest answer is old enough.
      if (entry?.isAnswered && ageMs - entry.answeredAtMs < keepMs) break
      this.#forgetOldest()
    }
    if (isUp() && this.#waiting.size > 0) {
      await this.#sendAll([...this.#waiting]).catch(() => undefined)
    }
  }

  /** Resolves when every sending has ended, well or not. */
  async idle(): Promise<void> {
    if (this.#sending === 0) return
    await new Promise<void>((resolve) => this.#onIdle.push(resolve))
  }

  /** All that is kept goes to the disk, for the next start. */
  async park(): Promise<void> {
    const all = [...this.#kept(), ...this.#open.members()]
    await Promise.allSettled(all.map((entry) => this.#spool(entry)))
  }

  #kept(): OutboxEntry[] {
    return this.#answered.slice(this.#oldest).flatMap((entry) => (entry?.isAnswered ? entry : []))
  }

  async #sendAll(entries: readonly OutboxEntry[]): Promise<void> {
    for (let from = 0; from < entries.length; from += chunk) {
      const replies = await Promise.all(
        entries.slice(from, from + chunk).map((entry) => this.#send(entry)),
      )
      // An order that Redis refuses (out of memory, say) must not keep the gate shut.
      if (replies.includes('unreached')) throw unavailable()
    }
  }

  async #send(entry: OutboxEntry): Promise<OrderReply | Failure> {
    const { send, onSettled } = this.#options
    this.#waiting.delete(entry)
    try {
      const reply = await this.#counted(send(entry.order))
      this.#open.delete(entry)
      if (reply.word === 'insufficient_balance') this.#waitForTokens(entry)
      else if (reply.word !== 'ok') await this.#giveUp(entry, reply.word)
      else {
        this.#keepAnswered(entry)
        if (entry.order.kind === 'settle') onSettled(reply, entry.order)
      }
      return reply
    } catch (error) {
      this.#wait(entry)
      return wasRefused(error) ? 'refused' : 'unreached'
    }
  }

  async #counted(sending: Promise<OrderReply>): Promise<OrderReply> {
    this.#sending++
    try {
      return await sending
    } finally {
      this.#sending--
      if (this.#sending === 0) for (const idle of this.#onIdle.splice(0)) idle()
    }
  }

  #wait(entry: OutboxEntry): void {
    entry.isAnswered = false
    this.#open.add(entry)
    this.#waiting.add(entry)
    this.#spool(entry).catch(() => undefined) // the spool reports it, and keeps the order in memory
  }

  /**
   * Redis has made an adjustment below 0, and then forgot it. Sent again, it is refused until the balance covers it, perhaps
   * only when another gateway has sent its own orders again. So each sweep sends it, until credit.lua answers `late` after a
   * day.
   */
  #waitForTokens(entry: OutboxEntry): void {
    // `wasAnswered` is cleared the first time: so the problem is reported once, and if `late` follows, #giveUp puts the
    // order on record.
    const isFirstTime = entry.wasAnswered
    entry.wasAnswered = false
    this.#wait(entry)
    if (!isFirstTime) return
    const { id } = entry.order
    const cause = new Error(`The balance does not cover the credit ${id} now`)
    this.#options.onProblem('Redis forgot an adjustment: it waits for the balance', cause)
  }

  #keepAnswered(entry: OutboxEntry): void {
    entry.answeredAtMs = this.#options.connected.ageMs
    entry.wasAnswered = true
    // An entry that a replay sent again has its place already.
    if (entry.isAnswered) return
    entry.isAnswered = true
    this.#answered.push(entry)
    if (this.#answered.length - this.#oldest > maxAnswered) this.#forgetOldest()
  }

  #forgetOldest(): void {
    const entry = this.#answered[this.#oldest]
    this.#answered[this.#oldest++] = undefined
    if (this.#oldest >= 1024 && this.#oldest * 2 >= this.#answered.length) {
      this.#answered = this.#answered.slice(this.#oldest)
      this.#oldest = 0
    }
    if (entry?.isAnswered) this.#leaveDisk(entry)
  }

  /** For an order that can't be carried out: it is a day late, its account is gone, or its script refuses it for ever. A late order that was answered before was carried out then: it is not put on record. */
  async #giveUp(entry: OutboxEntry, word: OrderReply['word']): Promise<void> {
    const { spool, onLate, onProblem } = this.#options
    entry.isAnswered = false
    const wasCarriedOut = entry.wasAnswered && word === 'late'
    if (!wasCarriedOut) {
      try {
        await spool.late(entry.order)
      } catch (error) {
        if (!this.#isLateRefused) onProblem('late.ndjson could not be written', error)
        this.#isLateRefused = true
        return this.#wait(entry)
      }
      this.#isLateRefused = false
      onLate(entry.order)
    }
    this.#leaveDisk(entry)
  }

  async #spool(entry: OutboxEntry): Promise<void> {
    if (entry.isSpooled) return
    entry.isSpooled = true
    const { order, wasAnswered } = entry
    await this.#options.spool.append(wasAnswered ? { ...order, wasAnswered } : order)
  }

  #leaveDisk(entry: OutboxEntry): void {
    if (entry.isSpooled) this.#options.spool.remove(orderKey(entry.order))
  }
}

function newEntry(order: Order): OutboxEntry {
  return {
    order,
    isAnswered: false,
    wasAnswered: order.wasAnswered === true,
    answeredAtMs: 0,
    isSpooled: false,
    isListed: false,
    previous: undefined,
    next: undefined,
  }
}
