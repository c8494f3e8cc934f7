// The two writes that must not be lost, as plain records: they can be sent, kept in memory, written to disk and sent again.
// Sending one twice is harmless: the scripts know it by its id. A settlement is made here, of the end of a hold's work, and
// its reply is read here; a credit is made in credit.ts. The outbox decides when an order is sent, and when it is sent again.

import { accountKeys, keys } from '../redis/keys.ts'
import { numberAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { noProgress } from './hold.ts'
import type { Hold, Progress, Settled } from './hold.ts'
import type { LedgerScripts, LedgerWords } from './library.ts'
import { wholeAmount, wholeCounts } from './price.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'

export interface SettleOrder extends TokenCounts {
  readonly kind: 'settle'
  readonly ref: string
  /** For whoever reads late.ndjson. Missing in spools of older versions, and where an admission had no reply. */
  readonly accountId?: string
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
  /** The key has limits of its own, which may have counted tokens. Counts as true where it is missing: in spools of older versions, and where the key is unknown. */
  readonly keyHasLimits?: boolean
  readonly model: string
  /** `e` estimated, `c` cut. */
  readonly flags: string
  readonly meta: string
}

export type CreditType = 'topup' | 'adjustment' | 'refund'

export interface CreditOrder {
  readonly kind: 'credit'
  readonly ref: string
  /** For whoever reads late.ndjson: Redis may have lost the account by then. */
  readonly accountId?: string
  readonly id: string
  readonly hash: string
  readonly amount: number
  readonly type: CreditType
  readonly meta: string
  /** Of a top-up: the payment, which is made only once. */
  readonly reference?: string
  /** ms of Redis' time when it was first made. */
  readonly at: number
}

export type Order = (SettleOrder | CreditOrder) & {
  /** Redis has accepted the order once: only a Redis that forgot the order needs it again. */
  readonly wasAnswered?: boolean
}

export type OrderReply = Reply<LedgerWords['settle' | 'credit']>

export const orderKey = ({ kind, ref, id }: Order) => `${kind}:${ref}:${id}`

export interface Settlement extends Progress {
  /** Balance tokens that a backend reported beyond what the request can have used: on record, not charged. */
  readonly implausible?: number
  readonly estimated?: boolean
  readonly cut?: boolean
}

export interface SettlingOptions {
  readonly outbox: { settle(order: SettleOrder): Promise<OrderReply | undefined> }
  /** The hold's work has ended: it needs no lease. */
  readonly onEnded: (hold: Hold) => void
}

/** Sends in this tick; the caller need not await the result. Never rejects because Redis is away. A second call for the same hold returns the same promise. */
export type Settle = (hold: Hold, ending: Settlement) => Promise<Settled>

export function createSettle({ outbox, onEnded }: SettlingOptions): Settle {
  return (hold, ending) => {
    if (hold.settlement) return hold.settlement
    onEnded(hold)
    const order = settleOrder(hold, ending)
    hold.settlement = outbox.settle(order).then((reply) => toSettled(order, reply))
    return hold.settlement
  }
}

export function settleOrder(hold: Hold, ending: Settlement): SettleOrder {
  const { id, ref, accountId, hmac, keyId, keyHasLimits, model, meta } = hold.fields
  const { countedTokens, minute, wouldRefuse } = hold.fields
  // From now on, the hold's progress is what this settles: if a closing ledger settles first, metering shows that as the cost.
  hold.watch(() => ending)
  const used = wholeCounts(ending)
  // What would have been refused was not counted at admission, so there is no count to correct.
  const counted = wouldRefuse ? used.prompt + used.completion : countedTokens
  return {
    kind: 'settle',
    ref,
    accountId,
    hmac,
    id,
    charge: wholeAmount(ending.charge),
    prompt: used.prompt,
    cached: used.cached,
    completion: used.completion,
    counted,
    minute,
    implausible: wholeAmount(ending.implausible ?? 0),
    keyId,
    keyHasLimits,
    model,
    flags: `${ending.estimated ? 'e' : ''}${ending.cut ? 'c' : ''}`,
    meta,
  }
}

export function toSettled(order: SettleOrder, reply: OrderReply | undefined): Settled {
  // An order without a reply waits, and will be charged.
  if (!reply) return { charge: order.charge, owed: 0, waived: 0, isWaiting: true }
  if (reply.word !== 'ok') return { charge: 0, owed: 0, waived: 0, isWaiting: false }
  const [charge, owed, waived] = [numberAt(reply, 2), numberAt(reply, 3), numberAt(reply, 6)]
  return { charge, owed, waived, isWaiting: false }
}

/** Undoes an admission whose reply was lost, because Redis may have made it. The mark that this leaves refuses an admission that arrives even later. */
export function releaseOrder(ref: string, hmac: string, id: string): SettleOrder {
  const nothing = { ...noProgress, counted: 0, minute: 0 }
  const nobody = { keyId: '-', model: '-', flags: '', meta: '{}' }
  return { kind: 'settle', ref, hmac, id, ...nothing, ...nobody }
}

/** Sends in this tick. */
export function sendOrder(
  scripts: LedgerScripts,
  order: Order,
  isFirst = false,
): Promise<OrderReply> {
  return order.kind === 'settle' ? sendSettle(scripts, order) : sendCredit(scripts, order, isFirst)
}

function sendSettle(scripts: LedgerScripts, order: SettleOrder): Promise<OrderReply> {
  const { ref, hmac, id, charge, prompt, cached, completion } = order
  const { counted, minute, implausible = 0, keyId, keyHasLimits = true, model, flags, meta } = order
  const used = `${id} ${charge} ${prompt} ${cached} ${completion}`
  const counts = `${counted} ${minute} ${implausible} ${keyHasLimits ? 1 : 0}`
  const args = [`${used} ${counts}`, `${keyId} ${model}`, flags, meta]
  return scripts.run('settle', [...accountKeys(ref), keys.key(ref, hmac)], args)
}

function sendCredit(
  scripts: LedgerScripts,
  order: CreditOrder,
  isFirst: boolean,
): Promise<OrderReply> {
  const { ref, id, amount, hash, type, meta, at, reference = '' } = order
  const names = [...accountKeys(ref), keys.credit(ref, id), keys.payments(ref)]
  const first = isFirst ? '1' : ''
  return scripts.run('credit', names, [`${amount}`, hash, type, meta, `${at}`, reference, first])
}

interface Told {
  readonly onOwing: (ref: string) => void
  /** A backend reported so many balance tokens more than its request can have used. */
  readonly onImplausible: (tokens: number) => void
}

/** After each settlement that Redis has made, also one that was sent again. */
export function reportSettled(
  reply: OrderReply,
  order: SettleOrder,
  { onOwing, onImplausible }: Told,
): void {
  const { ref, implausible: tokens = 0 } = order
  if (numberAt(reply, 3) > 0) onOwing(ref)
  const isRepeated = numberAt(reply, 5) === 1
  if (tokens > 0 && !isRepeated) onImplausible(tokens)
}
