// The two writes that must not be lost, as plain records: they can be sent, kept in memory, written to disk and sent again.
// Sending one twice is harmless: the scripts know it by its id.

import { keys } from '../redis.ts'
import { hourMs } from './clock.ts'
import type { RedisClock } from './clock.ts'
import { unavailable } from '../scripts.ts'
import type { LedgerScripts } from './library.ts'
import type { Reply } from '../scripts.ts'

export interface SettleOrder {
  readonly kind: 'settle'
  readonly ref: string
  readonly hmac: string
  readonly id: string
  /** Balance tokens in all. */
  readonly charge: number
  readonly prompt: number
  readonly cached: number
  readonly completion: number
  /** What the tokens-a-minute limit counted at admission, and in which minute. */
  readonly counted: number
  readonly minute: number
  /** Balance tokens that were reported and not charged. Not there in spools of older versions. */
  readonly implausible?: number
  readonly keyId: string
  readonly model: string
  /** `e` estimated, `c` cut. */
  readonly flags: string
  readonly meta: string
}

export interface CreditOrder {
  readonly kind: 'credit'
  readonly ref: string
  readonly id: string
  readonly hash: string
  readonly amount: number
  readonly type: 'topup' | 'adjustment'
  readonly meta: string
  /** ms of Redis' time when it was first made. */
  readonly at: number
}

export type Order = (SettleOrder | CreditOrder) & {
  /** Redis said yes once: only a Redis that forgot it needs it again. */
  readonly wasAnswered?: boolean
}

export const orderKey = ({ kind, ref, id }: Order) => `${kind}:${ref}:${id}`

/** A hold id is a UUIDv7 in hex. */
export const hourOfHold = (id: string) => Math.floor(Number.parseInt(id.slice(0, 12), 16) / hourMs)

export const dayOf = (hour: number) => Math.floor(hour / 24)

/** What every script that moves money declares, in the order that the Lua headers tell. */
export function moneyKeys(ref: string, hmac: string, hour: number): string[] {
  return [
    keys.account(ref),
    keys.key(ref, hmac),
    keys.holds(ref),
    keys.open(ref),
    keys.journal(ref),
    keys.usageHour(ref, hour),
    keys.usageDay(ref, dayOf(hour)),
  ]
}

const maxRounds = 4

/** Sends an order until the script has the keys of its hour. The first sending is in this tick. */
export async function sendOrder(
  scripts: LedgerScripts,
  clock: RedisClock,
  order: Order,
): Promise<Reply> {
  for (let round = 0; round < maxRounds; round++) {
    const reply = await (order.kind === 'settle'
      ? sendSettle(scripts, clock.hour(), order)
      : sendCredit(scripts, order))
    if (reply.word !== 'clock') return reply
  }
  throw unavailable(new Error("Redis' hour could not be met"))
}

function sendSettle(scripts: LedgerScripts, hour: number, order: SettleOrder): Promise<Reply> {
  const { ref, hmac, id, charge, prompt, cached, completion, counted, minute } = order
  const names = [...moneyKeys(ref, hmac, hour), keys.settled(ref, hourOfHold(id))]
  const numbers = `${charge} ${prompt} ${cached} ${completion} ${counted} ${minute} ${order.implausible ?? 0}`
  const by = `${order.keyId} ${order.model}`
  return scripts.run('settle', names, [`${hour}`, `${id} ${numbers}`, by, order.flags, order.meta])
}

function sendCredit(scripts: LedgerScripts, order: CreditOrder): Promise<Reply> {
  const { ref, id, amount, hash, type, meta, at } = order
  const names = [keys.account(ref), keys.journal(ref), keys.credit(ref, id)]
  return scripts.run('credit', names, [`${amount}`, hash, type, meta, `${at}`])
}
