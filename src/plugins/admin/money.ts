// Money over HTTP: top-ups and adjustments, and what the ledger knows
// of an account. The ledger ensures the promises of docs/money.md.

import { z } from '../../config/schema.ts'
import { json } from '../../exchange.ts'
import type { Exchange, Route } from '../../exchange.ts'
import type { Gateway } from '../../plugin.ts'
import { parseFields, printable } from '../../http/fields.ts'
import { idempotencyKey } from '../../http/headers.ts'
import { newId } from '../../ids.ts'
import type { CreditRequest } from '../../ledger/credit.ts'
import { operatorTurn } from '../../sharing/fair-turns.ts'
import { accountIn, route } from './route.ts'
import {
  answerTransactions,
  answerUsage,
  answerUsageOfAll,
  bookQueries,
} from '../../ledger/book-answers.ts'

const replayed = { 'Idempotent-Replayed': 'true' }

const referenceHelp = 'write 1 to 255 visible ASCII characters'
const whole = z.int({ error: 'write a whole number of tokens' })
export const topup = z.strictObject({
  amount: whole.min(1, { error: 'write a whole number greater than 0' }),
  note: printable(500).optional(),
  reference: z
    .string()
    .min(1, { error: referenceHelp })
    .max(255, { error: referenceHelp })
    .regex(/^[\x21-\x7e]*$/, { error: referenceHelp })
    .optional(),
})
export const adjustment = z.strictObject({
  amount: whole.refine((amount) => amount !== 0, { error: 'write a whole number other than 0' }),
  note: printable(500).min(1, { error: 'write the reason' }),
  type: z
    .enum(['adjustment', 'refund'], { error: 'write adjustment or refund' })
    .default('adjustment'),
})

type CreditFields = Omit<CreditRequest, 'ref' | 'accountId' | 'idempotencyId'>

export function moneyRoutes(gateway: Gateway): readonly Route[] {
  const { ledger } = gateway
  const refOf = async (x: Exchange) => (await accountIn(gateway, x)).ref
  const bookOf = async (x: Exchange) => {
    const { ref, account } = await accountIn(gateway, x)
    return { ref, query: x.query, accountId: account.id, share: operatorTurn }
  }
  const credit = async (x: Exchange, fields: CreditFields, path: 'topup' | 'adjustment') => {
    const { ref, account } = await accountIn(gateway, x)
    const key = idempotencyKey(x.headers)
    // Both routes may get the same key: each makes its own transaction.
    const idempotencyId = key === undefined ? newId('req') : `${path}:${key}`
    const made = await ledger.credit({ ref, accountId: account.id, idempotencyId, ...fields })
    return json(made.transaction, 200, made.isRepeated ? replayed : {})
  }
  return [
    route('POST', 'accounts/:id/topup', (x) =>
      credit(x, { ...parseFields(x.body, topup), type: 'topup' }, 'topup'),
    ),
    route('POST', 'accounts/:id/adjust', (x) =>
      credit(x, parseFields(x.body, adjustment), 'adjustment'),
    ),
    route('GET', 'accounts/:id/balance', async (x) => json(await ledger.balance(await refOf(x)))),
    route(
      'GET',
      'accounts/:id/transactions',
      async (x) => answerTransactions(ledger, await bookOf(x)),
      bookQueries.transactions,
    ),
    route(
      'GET',
      'accounts/:id/usage',
      async (x) => answerUsage(ledger, await bookOf(x)),
      bookQueries.usage,
    ),
    {
      ...route('GET', 'usage', (x) => answerUsageOfAll(ledger, x), bookQueries.usageOfAll),
      abortOnLeave: true,
    },
  ]
}
