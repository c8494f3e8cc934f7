// The two writes that must not be lost, as plain records: they can be sent, kept in memory, written to disk and sent again.
// Sending one twice is harmless: the scripts know it by its id.

import { keys } from '../redis/redis.ts'
import { accountKeys } from './library.ts'
import type { LedgerScripts, LedgerWords } from './library.ts'
import type { Reply } from '../redis/scripts.ts'
import { toWords } from '../tokens/token-counts.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'

export interface SettleOrder extends TokenCounts {
  readonly kind: 'settle'
  readonly ref: string
  readonly hmac: string
  readonly id: string
  /** Balance tokens in all. */
  readonly charge: number
  /** What the tokens-a-minute limit counted at admission, and in which minute. */
  readonly counted: number
  readonly minute: number
  /** Balance tokens that were reported and not charged. Missing in spools of older versions. */
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
  /** Redis has accepted the order once: only a Redis that forgot the order needs it again. */
  readonly wasAnswered?: boolean
}

export type OrderReply = Reply<LedgerWords['settle' | 'credit']>

export const orderKey = ({ kind, ref, id }: Order) => `${kind}:${ref}:${id}`

/** Sends in this tick. */
export function sendOrder(scripts: LedgerScripts, order: Order): Promise<OrderReply> {
  return order.kind === 'settle' ? sendSettle(scripts, order) : sendCredit(scripts, order)
}

function sendSettle(scripts: LedgerScripts, order: SettleOrder): Promise<OrderReply> {
  const { ref, hmac, id, charge, counted, minute, implausible = 0 } = order
  const numbers = `${charge} ${toWords(order)} ${counted} ${minute} ${implausible}`
  const args = [`${id} ${numbers}`, `${order.keyId} ${order.model}`, order.flags, order.meta]
  return scripts.run('settle', [...accountKeys(ref), keys.key(ref, hmac)], args)
}

function sendCredit(scripts: LedgerScripts, order: CreditOrder): Promise<OrderReply> {
  const { ref, id, amount, hash, type, meta, at } = order
  const names = [...accountKeys(ref), keys.credit(ref, id)]
  return scripts.run('credit', names, [`${amount}`, hash, type, meta, `${at}`])
}
