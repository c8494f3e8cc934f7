// What a customer sees of the account's money and limits: the same answers as those of the billing API.

import { createUseReader } from '../../accounts/use.ts'
import { json } from '../../exchange.ts'
import type { Route } from '../../exchange.ts'
import { pageQuery, parsePage } from '../../http/page.ts'
import { isTransactionId } from '../../ledger/journal.ts'
import { parseUsageQuery, usageQuery } from '../../ledger/usage.ts'
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
      async ({ query }, { ref }) =>
        json(await ledger.transactions(ref, parsePage(query, isTransactionId))),
      pageQuery,
    ),
    route(
      'GET usage',
      async ({ query }, { ref }) => json(await ledger.usage(ref, parseUsageQuery(query))),
      usageQuery,
    ),
    route('GET limits', async (_x, { ref, plan }) => json(await readUse({ ref, plan, maxKeys }))),
  ]
}
