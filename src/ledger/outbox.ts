// Every settlement and credit until Redis has surely kept it: sent at once, on disk where it could not be sent, sent
// again in order at every reconnect, forgotten after 30 s of connected time since its reply.
// Memory is bounded: of those that were answered, the newest 100,000 (about 60 MB) are kept.

import type { ConnectedClock } from './clock.ts'
import { orderKey } from './orders.ts'
import type { CreditOrder, Order, SettleOrder } from './orders.ts'
import type { Reply } from './scripts.ts'
import { unavailable, wasRefused } from './scripts.ts'
import type { Spool } from './spool.ts'

export interface Outbox {
  /** Sends in this tick. Undefined: Redis could not be told, the order waits on disk. Never rejects. */
  settle(order: SettleOrder): Promise<Reply | undefined>
  /** Resolves with Redis' answer when a credit that was made is on disk. Rejects where Redis is away: then nothing is kept. */
  credit(order: CreditOrder): Promise<Reply>
  /** Orders of dead processes. */
  adopt(orders: readonly Order[]): void
  /** Sends all again, in order. Rejects where the connection is lost on the way. */
  replay(): Promise<void>
  /** Sends what waits, and forgets what Redis has kept for long enough. */
  sweep(): Promise<void>
  /** Orders whose answer is not there yet, or that could not be sent. */
  readonly unanswered: number
  /** Settlements and credits that are kept. */
  readonly size: number
  /** Resolves when every sending has ended, well or not. */
  idle(): Promise<void>
  /** All that is kept goes to the disk, for the next start. */
  park(): Promise<void>
}

export interface OutboxOptions {
  readonly send: (order: Order) => Promise<Reply>
  readonly isUp: () => boolean
  readonly connected: ConnectedClock
  readonly spool: Spool
  /** Also of a settlement that was sent again. */
  readonly onSettled: (reply: Reply) => void
  readonly onLate: (order: Order) => void
  readonly onProblem: (message: string, cause: unknown) => void
}

interface Entry {
  readonly order: Order
  state: 'sent' | 'waiting' | 'answered'
  answeredAtMs: number
  isOnDisk: boolean
}

/** Redis answered with an error, or did not answer. */
type Failure = 'refused' | 'unreached'

const keepMs = 30_000
const maxAnswered = 100_000
const chunk = 200

export function createOutbox(options: OutboxOptions): Outbox {
  const { send, isUp, connected, spool, onSettled, onLate, onProblem } = options
  const entries = new Map<string, Entry>()
  /** Those of the entries that could not be sent. */
  const waiting = new Map<string, Entry>()
  const sendings = new Set<Promise<unknown>>()

  const forget = (key: string, { isOnDisk }: Entry) => {
    entries.delete(key)
    waiting.delete(key)
    if (isOnDisk) spool.remove(key)
  }
  const keepOnDisk = async (entry: Entry) => {
    if (entry.isOnDisk) return
    entry.isOnDisk = true
    const wasAnswered = entry.state === 'answered' || entry.order.wasAnswered
    try {
      await spool.append(wasAnswered ? { ...entry.order, wasAnswered } : entry.order)
    } catch (error) {
      entry.isOnDisk = false
      throw error
    }
  }
  const wait = (key: string, entry: Entry) => {
    entry.state = 'waiting'
    waiting.set(key, entry)
    keepOnDisk(entry).catch((error: unknown) =>
      onProblem('A ledger write waits in memory only', error),
    )
  }
  /** One that can't be carried out any more: a day late, or its account is gone. What was carried out once is no loss. */
  const giveUp = async (key: string, entry: Entry) => {
    if (entry.order.wasAnswered) return forget(key, entry)
    try {
      await spool.late(entry.order)
    } catch (error) {
      onProblem('late.ndjson could not be written', error)
    }
    forget(key, entry)
    onLate(entry.order)
  }
  const take = async (key: string, entry: Entry): Promise<Reply> => {
    entry.state = 'sent'
    waiting.delete(key)
    const reply = await send(entry.order)
    if (reply.word !== 'ok') {
      await giveUp(key, entry)
      return reply
    }
    entry.state = 'answered'
    entry.answeredAtMs = connected.ageMs
    if (entry.order.kind === 'settle') onSettled(reply)
    return reply
  }
  const track = <T>(sending: Promise<T>): Promise<T> => {
    sendings.add(sending)
    const done = () => void sendings.delete(sending)
    sending.then(done, done)
    return sending
  }
  const tryToSend = async (key: string, entry: Entry): Promise<Reply | Failure> => {
    try {
      return await track(take(key, entry))
    } catch (error) {
      wait(key, entry)
      return wasRefused(error) ? 'refused' : 'unreached'
    }
  }
  const sendAll = async (wanted: ReadonlyMap<string, Entry>) => {
    let batch: Promise<Reply | Failure>[] = []
    const flush = async () => {
      const replies = await Promise.all(batch)
      batch = []
      // One that Redis refuses (out of memory, say) must not keep the gateway shut.
      if (replies.includes('unreached')) throw unavailable()
    }
    // Not those that come while it waits: they are sent already.
    const now = [...wanted]
    for (const [key, entry] of now) {
      if (wanted.get(key) !== entry) continue
      batch.push(tryToSend(key, entry))
      if (batch.length >= chunk) await flush()
    }
    await flush()
  }
  const dropOldest = () => {
    if (entries.size <= maxAnswered) return
    for (const [key, entry] of entries) {
      if (entry.state === 'answered') return forget(key, entry)
    }
  }
  const add = (order: Order): [string, Entry] => {
    const key = orderKey(order)
    const entry: Entry = { order, state: 'sent', answeredAtMs: 0, isOnDisk: false }
    entries.set(key, entry)
    dropOldest()
    return [key, entry]
  }
  return {
    get unanswered() {
      return [...entries.values()].filter(({ state }) => state !== 'answered').length
    },
    async settle(order) {
      const [key, entry] = add(order)
      if (isUp()) {
        const reply = await tryToSend(key, entry)
        return typeof reply === 'string' ? undefined : reply
      }
      wait(key, entry)
      return undefined
    },
    async credit(order) {
      if (!isUp()) throw unavailable()
      const reply = await track(send(order))
      if (reply.word !== 'ok') return reply
      const [, entry] = add(order)
      entry.state = 'answered'
      entry.answeredAtMs = connected.ageMs
      await keepOnDisk(entry).catch((error: unknown) => {
        throw unavailable(error)
      })
      return reply
    },
    adopt(orders) {
      for (const order of orders) {
        const key = orderKey(order)
        if (!entries.has(key)) {
          const entry: Entry = { order, state: 'waiting', answeredAtMs: 0, isOnDisk: true }
          entries.set(key, entry)
          waiting.set(key, entry)
        }
      }
    },
    replay: () => sendAll(entries),
    async sweep() {
      for (const [key, entry] of entries) {
        if (entry.state !== 'answered') continue
        if (connected.ageMs - entry.answeredAtMs < keepMs) break
        forget(key, entry)
      }
      if (isUp()) await sendAll(waiting).catch(() => undefined)
    },
    get size() {
      return entries.size
    },
    async park() {
      await Promise.allSettled([...entries.values()].map(keepOnDisk))
    },
    async idle() {
      while (sendings.size > 0) await Promise.allSettled(sendings)
    },
  }
}
