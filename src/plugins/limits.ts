// Limits, per minute, the requests that make no hold: those of routes without one, and repeated sends, which only read.
// For a request with a hold, the script that makes it counts, and a refused request does not count. Here a refused
// request counts too, but only with a valid key: so a client with an invented key cannot use up the requests of another
// account. On routes without a hold, the script that checks the key has counted already. In shadow mode nothing is refused;
// what would have been refused is noted.

import { noKeys } from '../config/schema.ts'
import type { Exchange } from '../exchange.ts'
import { limitHeaders } from '../http/headers.ts'
import { GatewayError } from '../errors.ts'
import type { LimitStates } from '../errors.ts'
import type { Plugin } from '../plugin.ts'
import { enforcement } from '../accounts/plan.ts'
import { createRequestRate, judgeRequests } from '../accounts/rate.ts'

export const limits: Plugin = {
  name: 'limits',
  schema: noKeys.describe(
    'Limits requests a minute that cost nothing, such as lists; those for models are limited by `metering`.',
  ),
  setup(gateway) {
    const rate = createRequestRate(gateway.redis.client)
    const { enforce } = enforcement.of(gateway.config)
    const count = async (x: Exchange, ref: string, perMinute: number): Promise<LimitStates> => {
      const counted = (await x.proof)?.requests
      try {
        return {
          requests: counted ? judgeRequests(counted, perMinute) : await rate(ref, perMinute),
        }
      } catch (error) {
        const isOver = error instanceof GatewayError && error.code === 'rate_limit_exceeded'
        if (enforce || !isOver) throw error
        x.facts.wouldRefuse = error.code
        return error.limits ?? {}
      }
    }
    return {
      begin(x) {
        // The account page has a limit of its own: looking at it must not use up requests of the API.
        if (x.route.access === 'cookie') return undefined
        const identify = async () => {
          if (!x.caller) return
          await x.proof
          const plan = gateway.ledger.planOf(x.caller.ref)
          if (!plan) return
          const states = await count(x, x.caller.ref, plan.requestsPerMinute)
          Object.assign(x.replyHeaders, limitHeaders(states))
        }
        const { metered, creates } = x.route
        if (!metered) return { identify }
        if (!creates) return undefined
        // The key is known by now. Without `want`, the request only continues to read a stream.
        const known = async () => (x.identity ? identify() : undefined)
        return { answered: known, admit: async () => (x.want ? undefined : known()) }
      },
    }
  },
}
