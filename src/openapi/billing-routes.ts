// The routes of an account's money, for docs/api.md and the OpenAPI document.

import { listOfObjects, ref } from './fields.ts'
import { json } from './operation.ts'
import type { Operations } from './operation.ts'
import { pageQuery, usageQuery } from './queries.ts'

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
    query: pageQuery('txn'),
    replies: {
      200: {
        says: 'a list of [transactions](#transaction). A cursor is `txn_` and 32 hex digits.',
        content: json(listOfObjects('Transaction')),
      },
    },
  },
  'GET /api/billing/usage': {
    id: 'getUsage',
    title: 'Sum up the usage, by hour or day',
    access: 'billing',
    query: usageQuery,
    queryAnchor: 'usage-query',
    replies: {
      200: {
        says: 'the complete list of [usage rows](#usage-row), oldest first: `has_more` is false, `first_id` and `last_id` are null.',
        content: json(listOfObjects('Usage row')),
      },
    },
  },
}
