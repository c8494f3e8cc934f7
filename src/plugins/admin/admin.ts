// The operator's API on its own listener (docs/api.md#admin): accounts, keys, money, configuration. Every route needs
// the admin token, and refuses web pages, which send an Origin, or a Host that is not ours. Wrong tokens are counted by
// address; a client with the right token never gets 429.

import { z } from '../../config/schema.ts'
import { GatewayError } from '../../errors.ts'
import type { Exchange } from '../../exchange.ts'
import type { Plugin } from '../../plugin.ts'
import { createGuard } from '../../accounts/rate.ts'
import type { Guard } from '../../accounts/rate.ts'
import { accountRoutes } from './accounts.ts'
import { createDoorkeeper } from './guard.ts'
import { keyRoutes } from './keys.ts'
import { moneyRoutes } from './money.ts'
import { overviewRoutes } from './overview.ts'

const schema = z.strictObject({
  failures_per_minute_per_ip: z
    .int()
    .min(1)
    .default(60)
    .describe(
      'How many wrong admin tokens a minute one address may send before further ones are answered 429.',
    ),
})

export const admin: Plugin<z.infer<typeof schema>> = {
  name: 'admin',
  schema,
  setup(gateway, config) {
    const check = createDoorkeeper(gateway.config.admin)
    const guard = createGuard(config.failures_per_minute_per_ip)
    return {
      routes: [
        ...accountRoutes(gateway),
        ...keyRoutes(gateway),
        ...moneyRoutes(gateway),
        ...overviewRoutes(gateway),
      ],
      begin(x) {
        if (x.route.access !== 'admin-token') return undefined
        return { check: () => check(x.headers), refuse: (error) => guarded(guard, x, error) }
      },
    }
  },
}

function guarded(guard: Guard, { ip, headers }: Exchange, error: GatewayError): GatewayError {
  if (error.code !== 'invalid_admin_token' || !headers.authorization) return error
  const waitMs = guard.fail(ip)
  if (waitMs === 0) return error
  return new GatewayError('rate_limit_exceeded', {
    retryAfterMs: waitMs,
    message: 'Too many wrong admin tokens from this address. Wait as Retry-After says.',
  })
}
