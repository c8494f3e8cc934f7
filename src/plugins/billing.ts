// An account's balance, transactions and usage, read straight from the ledger.

import { lowBalanceHeaders } from '../accounts/low-balance.ts'
import { noKeys } from '../config/schema.ts'
import { answering, json, refOf } from '../exchange.ts'
import type { Answer, Exchange, Route } from '../exchange.ts'
import { answerTransactions, answerUsage, bookQueries } from '../ledger/book-answers.ts'
import type { Plugin } from '../plugin.ts'

export const billing: Plugin = {
  name: 'billing',
  schema: noKeys.describe('Balance, transactions and usage of an account, under `/api/billing`.'),
  setup({ ledger, config }) {
    const get = (
      path: string,
      read: (x: Exchange, ref: string) => Promise<Answer>,
      query: readonly string[] = [],
    ): Route => ({
      method: 'GET',
      query,
      path: `/api/billing/${path}`,
      access: 'billing',
      body: 'none',
      begin: answering(async (x) => read(x, refOf(x))),
    })
    const bookOf = ({ query, signal, identity }: Exchange, ref: string) => ({
      ref,
      query,
      signal,
      accountId: identity?.accountId ?? '',
      share: ref,
    })
    return {
      routes: [
        get('balance', async (x, ref) => {
          const balance = await ledger.balance(ref, x.caller?.hmac)
          Object.assign(x.replyHeaders, lowBalanceHeaders(config, balance.available))
          return json(balance)
        }),
        get(
          'transactions',
          (x, ref) => answerTransactions(ledger, bookOf(x, ref)),
          bookQueries.transactions,
        ),
        {
          ...get('usage', (x, ref) => answerUsage(ledger, bookOf(x, ref)), bookQueries.usage),
          abortOnLeave: true,
        },
      ],
    }
  },
}
