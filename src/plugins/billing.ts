// An account's balance, transactions and usage, read straight from the ledger.

import { lowBalanceHeaders } from '../accounts/low-balance.ts'
import { noKeys } from '../config/schema.ts'
import { answering, json, refOf } from '../exchange.ts'
import type { Exchange, Route } from '../exchange.ts'
import { pageQuery, parsePage } from '../http/page.ts'
import { parseUsageQuery, usageQuery } from '../ledger/usage.ts'
import { isTransactionId } from '../ledger/journal.ts'
import type { Plugin } from '../plugin.ts'

export const billing: Plugin = {
  name: 'billing',
  schema: noKeys,
  setup({ ledger, config }) {
    const get = (
      path: string,
      read: (x: Exchange, ref: string) => Promise<object>,
      query: readonly string[] = [],
    ): Route => ({
      method: 'GET',
      query,
      path: `/api/billing/${path}`,
      access: 'billing',
      body: 'none',
      begin: answering(async (x) => json(await read(x, refOf(x)))),
    })
    return {
      routes: [
        get('balance', async (x, ref) => {
          const balance = await ledger.balance(ref)
          Object.assign(x.replyHeaders, lowBalanceHeaders(config, balance.available))
          return balance
        }),
        get(
          'transactions',
          (x, ref) => ledger.transactions(ref, parsePage(x.query, isTransactionId)),
          pageQuery,
        ),
        get('usage', (x, ref) => ledger.usage(ref, parseUsageQuery(x.query)), usageQuery),
      ],
    }
  },
}
