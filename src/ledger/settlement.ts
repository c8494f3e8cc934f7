// Turns the end of a hold's work into the order that charges it, and the reply into the result.

import type { Debtors } from './debtors.ts'
import type { LedgerEvents } from './events.ts'
import { noProgress } from './hold.ts'
import type { Hold, Progress, Settled } from './hold.ts'
import { amount, wholeCounts } from './leases.ts'
import type { SettleOrder } from './orders.ts'
import { numberAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'

export interface Settlement extends Progress {
  /** Balance tokens that a backend reported beyond what the request can have used: on record, not charged. */
  readonly implausible?: number
  readonly estimated?: boolean
  readonly cut?: boolean
}

export function settleOrder(hold: Hold, ending: Settlement): SettleOrder {
  const { id, ref, hmac, keyId, model, meta, countedTokens, minute } = hold.fields
  hold.watch(() => ending)
  return {
    kind: 'settle',
    ref,
    hmac,
    id,
    charge: amount(ending.charge),
    ...wholeCounts(ending),
    counted: countedTokens,
    minute,
    implausible: amount(ending.implausible ?? 0),
    keyId,
    model,
    flags: `${ending.estimated ? 'e' : ''}${ending.cut ? 'c' : ''}`,
    meta,
  }
}

export function toSettled(order: SettleOrder, reply: Reply | undefined): Settled {
  if (!reply || reply.word !== 'ok') {
    return { charge: reply ? 0 : order.charge, owed: 0, isWaiting: reply === undefined }
  }
  return { charge: numberAt(reply, 2), owed: numberAt(reply, 3), isWaiting: false }
}

/** Undoes an admission whose reply was lost, because Redis may have made it. The mark that this leaves refuses an admission that arrives even later. */
export function releaseOrder(ref: string, hmac: string, id: string): SettleOrder {
  const nothing = { ...noProgress, counted: 0, minute: 0 }
  const nobody = { keyId: '-', model: '-', flags: '', meta: '{}' }
  return { kind: 'settle', ref, hmac, id, ...nothing, ...nobody }
}

interface Told {
  readonly debtors: Debtors
  readonly events: LedgerEvents
}

/** After each settlement that Redis has made, also one that was sent again. */
export function reportSettled(reply: Reply, order: SettleOrder, { debtors, events }: Told): void {
  const { id, ref, model, implausible: tokens = 0 } = order
  if (numberAt(reply, 3) > 0) debtors.note(ref)
  const isRepeated = reply.values[5] === 1
  if (tokens > 0 && !isRepeated) {
    // A hold has the id of its request.
    events.implausible?.({ requestId: `req_${id}`, model: decodeURIComponent(model), tokens })
  }
}
