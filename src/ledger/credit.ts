// Top-ups and adjustments: checked here, made by credit.lua, refused as docs/errors.md says.

import { hash as hashOf } from 'node:crypto'
import { GatewayError } from '../errors.ts'
import { invalidParameter } from '../http/refusals.ts'
import type { CreditOrder, OrderReply } from './orders.ts'
import { numberAt, unavailable } from '../redis/scripts.ts'

export interface CreditRequest {
  readonly ref: string
  /** A repeated id gets the same answer; with other content it is refused. */
  readonly idempotencyId: string
  /** Signed; a top-up is greater than 0. */
  readonly amount: number
  readonly type: 'topup' | 'adjustment'
  readonly note?: string
}

export function creditOrder(
  { ref, idempotencyId, amount, type, note }: CreditRequest,
  at: number,
): CreditOrder {
  if (!Number.isSafeInteger(amount) || amount === 0 || (type === 'topup' && amount < 0)) {
    const relation = type === 'topup' ? 'greater than' : 'other than'
    const message = `"amount" must be a whole number ${relation} 0, at most 2^53-1.`
    throw invalidParameter('amount', message)
  }
  const meta = JSON.stringify({ note })
  const hash = hashOf('sha256', JSON.stringify([ref, amount, type, note]), 'base64url')
  return { kind: 'credit', ref, id: idempotencyId, hash, amount, type, meta, at: Math.floor(at) }
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
  if (word === 'invalid_parameter') {
    const message =
      'The account would have been given more than 2^53-1 tokens in all. Lower the amount.'
    return invalidParameter('amount', message)
  }
  if (word === 'ok' || word === 'late') return unavailable(new Error(`A credit is ${word}`))
  return new GatewayError(word)
}
