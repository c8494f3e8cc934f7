// Money over HTTP: top-ups and adjustments, and what the ledger knows
// of an account. The ledger ensures the promises of docs/money.md.

import { z } from '../../config/schema.ts'
import { json } from '../../exchange.ts'
import type { Exchange, Route } from '../../exchange.ts'
import type { Gateway } from '../../plugin.ts'
import { parseFields, printable } from '../../http/fields.ts'
import { idempotencyKey } from '../../http/headers.ts'
import { pageQuery, parsePage, single } from '../../http/page.ts'
import { newId } from '../../ids.ts'
import { isTransactionId } from '../../ledger/journal.ts'
import { idOf, route } from './route.ts'
import { parseUsageQuery, usageQuery } from '../../ledger/usage.ts'

const replayed = { 'Idempotent-Replayed': 'true' }

const whole = z.int({ error: 'write a whole number of tokens' })
export const topup = z.strictObject({
  amount: whole.min(1, { error: 'write a whole number greater than 0' }),
  note: printable(500).optional(),
})
export const adjustment = z.strictObject({
  amount: whole.refine((amount) => amount !== 0, { error: 'write a whole number other than 0' }),
  note: printable(500).min(1, { error: 'write the reason' }),
})

export function moneyRoutes(gateway: Gateway): readonly Route[] {
  const { accounts, ledger } = gateway
  const refOf = async (x: Exchange) => (await accounts.getAccount(idOf(x))).ref
  const credit = async (x: Exchange, type: 'topup' | 'adjustment') => {
    const { amount, note } = parseFields(x.body, type === 'topup' ? topup : adjustment)
    const ref = await refOf(x)
    const key = idempotencyKey(x.headers)
    // Both routes may get the same key: each makes its own transaction.
    const idempotencyId = key === undefined ? newId('req') : `${type}:${key}`
    const made = await ledger.credit({ ref, idempotencyId, amount, type, note })
    return json(made.transaction, 200, made.isRepeated ? replayed : {})
  }
  return [
    route('POST', 'accounts/:id/topup', (x) => credit(x, 'topup')),
    route('POST', 'accounts/:id/adjust', (x) => credit(x, 'adjustment')),
    route('GET', 'accounts/:id/balance', async (x) => json(await ledger.balance(await refOf(x)))),
    route(
      'GET',
      'accounts/:id/transactions',
      async (x) => {
        const page = parsePage(x.query, isTransactionId)
        return json(await ledger.transactions(await refOf(x), page))
      },
      pageQuery,
    ),
    route(
      'GET',
      'accounts/:id/usage',
      async (x) => {
        const query = parseUsageQuery(x.query)
        return json(await ledger.usage(await refOf(x), query))
      },
      usageQuery,
    ),
    route(
      'GET',
      'audit',
      async (x) => {
        const account = single(x.query, 'account')
        const ref = account === undefined ? undefined : (await accounts.getAccount(account)).ref
        return json(await ledger.audit(ref))
      },
      ['account'],
    ),
  ]
}
