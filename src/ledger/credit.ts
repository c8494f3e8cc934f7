// Top-ups, adjustments and refunds: checked here, made by credit.lua, refused as docs/errors.md says.

import { hash as hashOf } from 'node:crypto'
import { GatewayError } from '../errors.ts'
import { invalidParameter } from '../http/refusals.ts'
import type { CreditOrder, CreditType, OrderReply } from './orders.ts'
import { numberAt, unavailable } from '../redis/scripts.ts'

export interface CreditRequest {
  readonly ref: string
  /** Only for an operator who has to make the credit again. */
  readonly accountId?: string
  /** A repeated id gets the same answer; with other content it is refused. */
  readonly idempotencyId: string
  /** Signed; only an adjustment may be below 0. */
  readonly amount: number
  readonly type: CreditType
  readonly note?: string
  /** Of a top-up: the id of a payment. The payment is made only once, whatever the idempotency ids. */
  readonly reference?: string
}

export function creditOrder(
  { ref, accountId, idempotencyId: id, amount, type, note, reference }: CreditRequest,
  at: number,
): CreditOrder {
  if (!Number.isSafeInteger(amount) || amount === 0 || (type !== 'adjustment' && amount < 0)) {
    const relation = type === 'adjustment' ? 'other than' : 'greater than'
    const message = `"amount" must be a whole number ${relation} 0, at most 2^53-1.`
    throw invalidParameter('amount', message)
  }
  if (reference !== undefined && (type !== 'topup' || !isReference(reference)))
    throw invalidParameter('reference', 'Only a top-up has a "reference", of visible characters.')
  const meta = JSON.stringify({ note, reference })
  // Without a reference, the hash is the one that gateways of earlier versions make, which know no references.
  const said = [ref, amount, type, note, ...(reference === undefined ? [] : [reference])]
  const hash = hashOf('sha256', JSON.stringify(said), 'base64url')
  const order = { ref, id, hash, amount, type, meta, at: Math.floor(at) }
  return {
    kind: 'credit',
    ...order,
    ...(accountId !== undefined && { accountId }),
    ...(reference !== undefined && { reference }),
  }
}

/** Visible ASCII, as of an Idempotency-Key. */
export function isReference(text: string): boolean {
  return /^[\x21-\x7e]{1,255}$/.test(text)
}

export function creditRefusal(reply: OrderReply): GatewayError {
  const { word } = reply
  if (word === 'insufficient_balance') {
    const [available, owed] = [numberAt(reply, 2), numberAt(reply, 3)]
    return new GatewayError('insufficient_balance', {
      isConflict: true,
      message:
        owed > 0
          ? `The account owes ${owed} tokens, so nothing can be taken from it.`
          : `The account has no more than ${available} tokens available. Lower the amount.`,
      shortage: { available, owed },
    })
  }
  if (word === 'reference_reused') {
    const message = `The payment was made before, with ${numberAt(reply, 3)} tokens. Check its reference and its amount.`
    return new GatewayError(word, { param: 'reference', message })
  }
  if (word === 'more_than_spent') {
    const message = `The account has spent ${numberAt(reply, 2)} tokens, and a refund gives back no more. Use an adjustment.`
    return invalidParameter('amount', message)
  }
  if (word === 'invalid_parameter') {
    const message =
      'The account would have been given more than 2^53-1 tokens in all. Lower the amount.'
    return invalidParameter('amount', message)
  }
  if (word === 'ok' || word === 'late') return unavailable(new Error(`A credit is ${word}`))
  return new GatewayError(word)
}
