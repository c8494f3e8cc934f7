// What a customer sees of the account's money, with the same answers as those of the billing API, and of its limits.

import { createUseReader } from '../../accounts/use.ts'
import { json } from '../../exchange.ts'
import type { Route } from '../../exchange.ts'
import { answerTransactions, answerUsage, bookQueries } from '../../ledger/book-answers.ts'
import type { Gateway } from '../../plugin.ts'
import { portalSettings } from '../../portal/settings.ts'
import type { PageRoute } from './access.ts'

export function moneyRoutes(gateway: Gateway, route: PageRoute): readonly Route[] {
  const { ledger, config, redis } = gateway
  const { max_keys: maxKeys } = portalSettings.of(config)
  const readUse = createUseReader(redis, config)
  return [
    route('GET balance', async (_x, { ref }) => json(await ledger.balance(ref))),
    route(
      'GET transactions',
      ({ query }, { accountId, ref }) =>
        answerTransactions(ledger, { ref, query, accountId, share: ref }),
      bookQueries.transactions,
    ),
    {
      ...route(
        'GET usage',
        ({ query, signal }, { accountId, ref }) =>
          answerUsage(ledger, { ref, query, signal, accountId, share: ref }),
        bookQueries.usage,
      ),
      abortOnLeave: true,
    },
    route('GET limits', async (_x, { ref, plan }) => json(await readUse({ ref, plan, maxKeys }))),
  ]
}
