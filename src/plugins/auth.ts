// Who calls: reads the Bearer key, refuses what can't be one without asking Redis, and has the ledger identify the rest.
// Guesses are counted by address, and only failing requests are ever told 429: many customers share one address.

import { GatewayError } from '../errors.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway } from '../gateway.ts'
import { hmacKey, parseKey } from '../ledger/api-key.ts'
import type { Identity } from '../ledger/door.ts'
import type { Hooks, Plugin, Route, Scope } from '../plugin.ts'
import { createGuard } from '../rate.ts'
import { secret, z } from '../config/schema.ts'

const schema = z.strictObject({
  failures_per_minute_per_ip: z
    .int()
    .min(1)
    .default(60)
    .describe('Failed keys a minute from one address before further failures are answered 429.'),
  pepper: secret()
    .default('')
    .describe('Secret mixed into stored key hashes. Changing it makes every key invalid.'),
})

export const auth: Plugin<z.infer<typeof schema>> = {
  name: 'auth',
  schema,
  setup(gateway, config) {
    const guard = createGuard(config.failures_per_minute_per_ip)
    return {
      begin(x) {
        return needsKey(x.route) ? hooksOf(x, { gateway, pepper: config.pepper, guard }) : undefined
      },
    }
  },
}

function needsKey(route: Route): boolean {
  return route.access !== 'anybody' && route.access !== 'admin-token'
}

interface Door {
  readonly gateway: Gateway
  readonly pepper: string
  readonly guard: ReturnType<typeof createGuard>
}

function hooksOf(x: Exchange, { gateway, pepper, guard }: Door): Hooks {
  let identity: Promise<Identity> | undefined
  const identify = async () => {
    if (!x.caller) throw new GatewayError('missing_api_key')
    identity ??= gateway.ledger.identify({ ...x.caller, scope: scopeOf(x.route) })
    const { keyId, accountId, plan, models } = await identity
    Object.assign(x.caller, { keyId, accountId, plan, models })
  }
  return {
    check() {
      const text = bearerToken(x.headers.authorization)
      const parsed = parseKey(text)
      if (!parsed) throw new GatewayError('invalid_api_key')
      x.caller = { ref: parsed.ref, hmac: hmacKey(text, pepper) }
    },
    vouch: identify,
    // A metered route is identified by the script that holds: one flight less.
    identify: isLeftToMetering(x.route, gateway) ? undefined : identify,
    refuse: (error) => tooManyFailures(error, () => guard.fail(x.ip)),
  }
}

/** Not where an earlier try's answer may be replayed: it never comes to the hold. */
function isLeftToMetering(route: Route, { config }: Gateway): boolean {
  const { metered, creates } = route
  return metered === true && !creates && config.plugins.has('metering')
}

function scopeOf(route: Route): Scope | '' {
  return route.access === 'any-key' ? '' : (route.access as Scope)
}

function bearerToken(header: string | undefined): string {
  if (!header) throw new GatewayError('missing_api_key')
  const match = /^Bearer +([^\s]+)$/i.exec(header)
  if (!match?.[1]) throw new GatewayError('invalid_api_key')
  return match[1]
}

/** What a failed guess is answered where its address has failed too often. `fail` counts it and tells how long to wait, ms. */
function tooManyFailures(error: GatewayError, fail: () => number): GatewayError | undefined {
  if (error.status !== 401 || error.code === 'missing_api_key') return undefined
  const waitMs = fail()
  if (waitMs === 0) return undefined
  return new GatewayError('rate_limit_exceeded', {
    retryAfterMs: waitMs,
    message: 'Too many failed keys from this address. Wait as Retry-After says.',
  })
}
