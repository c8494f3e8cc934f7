// The operator's API on its own listener (docs/api.md#admin): accounts, keys, money, configuration. Every route needs
// the admin token, and refuses web pages, which send an Origin, or a Host that is not ours. Wrong tokens are counted by
// address; a client with the right token never gets 429.

import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Config } from '../../config/config.ts'
import { isLoopback } from '../../config/host-port.ts'
import { z } from '../../config/schema.ts'
import { GatewayError } from '../../errors.ts'
import type { Exchange } from '../../exchange.ts'
import type { Plugin } from '../../plugin.ts'
import { createGuard } from '../../accounts/rate.ts'
import type { Guard, Levels } from '../../accounts/rate.ts'
import { keptThroughReloads } from '../../kept-through-reloads.ts'
import { accountRoutes } from './accounts.ts'
import { auditRoute } from './audit.ts'
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
  schema: schema.describe('The admin API, which the commands of `tollgate` use.'),
  setup(gateway, config) {
    const check = checkOf(gateway.config.admin)
    const guard = createGuard(config.failures_per_minute_per_ip, {
      what: 'Too many wrong admin tokens from this address.',
      levels: failed(gateway),
    })
    return {
      routes: [
        ...accountRoutes(gateway),
        ...keyRoutes(gateway),
        ...moneyRoutes(gateway),
        auditRoute(gateway),
        ...overviewRoutes(gateway),
      ],
      begin(x) {
        if (x.route.access !== 'admin-token') return undefined
        return { check: () => check(x.headers), refuse: (error) => refuse(error, x, guard) }
      },
    }
  },
}

const failed = keptThroughReloads((): Levels => new Map())

/** Returns a check that throws the refusal for the client. */
function checkOf({ token, listen, hosts }: Config['admin']) {
  const allowed = new Set([listen.host, ...hosts].map((host) => host.toLowerCase()))
  // Hashes have the same length, so comparing them takes the same time for every token.
  const expected = hash('sha256', token, 'buffer')
  return ({ origin, host, authorization }: IncomingHttpHeaders) => {
    // A page that has its name resolve to this address (DNS rebinding) sends that name as Host.
    if (origin !== undefined) throw new GatewayError('origin_not_allowed')
    if (!isOurs(host, allowed)) throw new GatewayError('origin_not_allowed', { message: wrongHost })
    const given = /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
    if (token === '' || given === undefined) throw new GatewayError('invalid_admin_token')
    const isRight = timingSafeEqual(hash('sha256', given, 'buffer'), expected)
    if (!isRight) throw new GatewayError('invalid_admin_token')
  }
}

const wrongHost =
  'This is no Host of the admin listener. Call it by a loopback address, or list the name in admin.hosts.'

function isOurs(host: string | undefined, allowed: ReadonlySet<string>): boolean {
  const name = /^(\[[\da-f:.]+\]|[^\s:/[\]@]+)(:\d{1,5})?$/i.exec(host ?? '')?.[1]?.toLowerCase()
  if (name === undefined) return false
  return isLoopback(name) || allowed.has(name) || allowed.has(name.replace(/^\[|\]$/g, ''))
}

function refuse(
  { code }: GatewayError,
  { ip, headers }: Exchange,
  guard: Guard,
): GatewayError | undefined {
  return code === 'invalid_admin_token' && headers.authorization ? guard(ip) : undefined
}
