// Limits requests a minute that make no hold: those of routes without one, and repeated sends, which only read. For a
// request with a hold, the script that makes it counts, and a refused request does not count. Here a refused request
// counts too, but only with a valid key: so a client with an invented key cannot use up the requests of another account.

import { noKeys } from '../config/schema.ts'
import { limitHeaders } from '../http/headers.ts'
import type { Plugin } from '../plugin.ts'
import { createRequestRate } from '../accounts/rate.ts'

export const limits: Plugin = {
  name: 'limits',
  schema: noKeys,
  setup(gateway) {
    const count = createRequestRate(gateway.redis.client)
    return {
      begin(x) {
        const identify = async () => {
          if (!x.caller) return
          await x.proof
          const plan = gateway.ledger.planOf(x.caller.ref)
          if (!plan) return
          const requests = await count(x.caller.ref, plan.requestsPerMinute)
          Object.assign(x.replyHeaders, limitHeaders({ requests }))
        }
        const { metered, creates } = x.route
        if (!metered) return { identify }
        if (!creates) return undefined
        // The key is known by now. Without `want`, the request only reads on.
        const known = async () => (x.identity ? identify() : undefined)
        return { answered: known, admit: async () => (x.want ? undefined : known()) }
      },
    }
  },
}
