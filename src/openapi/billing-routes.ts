// The routes of an account's money, for docs/api.md and the OpenAPI document.

import { listOfObjects, ref } from './fields.ts'
import { json } from './operation.ts'
import type { GoodAnswer, Operations } from './operation.ts'
import { transactionQuery, usageQuery } from './queries.ts'

/** As JSON, or all rows for a spreadsheet. */
function rowsOf(title: string): GoodAnswer['content'] {
  return { ...json(listOfObjects(title)), 'text/csv': { type: 'string' } }
}

const codes = { concurrency_limit_exceeded: ' for a third CSV at the same time' }

export const billingRoutes: Operations = {
  'GET /api/billing/balance': {
    id: 'getBalance',
    title: 'Show the balance',
    access: 'billing',
    replies: {
      200: {
        says: 'the [balance](#balance).',
        content: json(ref('Balance')),
        headers: ['x-tollgate-balance-low'],
      },
    },
  },
  'GET /api/billing/transactions': {
    id: 'listTransactions',
    title: 'List the transactions',
    access: 'billing',
    query: transactionQuery,
    queryAnchor: 'transactions-query',
    replies: {
      200: {
        says: 'a list of [transactions](#transaction), or [CSV](#csv). A cursor is `txn_` and 32 hex digits.',
        content: rowsOf('Transaction'),
      },
    },
    codes,
    after:
      'With `type`, `model` or `key`, a page looks at 20,000 transactions at most. So it may have fewer rows than `limit`, or none, although `has_more` is true. Go on while `has_more` is true, with `last_id` as `after` (or `first_id` as `before`): take these from the page, not from its last row. CSV has no such bound.',
  },
  'GET /api/billing/usage': {
    id: 'getUsage',
    title: 'Sum up the usage, by hour or day',
    access: 'billing',
    query: usageQuery,
    queryAnchor: 'usage-query',
    replies: {
      200: {
        says: 'the complete list of [usage rows](#usage-row), oldest first, or [CSV](#csv): `has_more` is false, `first_id` and `last_id` are null.',
        content: rowsOf('Usage row'),
      },
    },
    codes,
  },
}
