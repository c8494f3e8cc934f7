// Limits requests a minute on routes without a hold. For a route with a hold, the script that makes it counts, and a
// refused request does not count. Here a refused request counts too, but only with a valid key: so a client with an
// invented key cannot use up the requests of another account.

import { z } from '../config/schema.ts'
import { limitHeaders } from '../http/limit-headers.ts'
import type { Plugin } from '../plugin.ts'
import { createRequestRate } from '../accounts/rate.ts'

const schema = z.strictObject({})

export const limits: Plugin<z.infer<typeof schema>> = {
  name: 'limits',
  schema,
  setup(gateway) {
    const count = createRequestRate(gateway.redis.client)
    return {
      begin(x) {
        if (x.route.metered) return undefined
        return {
          async identify() {
            if (!x.caller) return
            await x.proof
            const plan = gateway.ledger.planOf(x.caller.ref)
            if (!plan) return
            const requests = await count(x.caller.ref, plan.requestsPerMinute)
            Object.assign(x.replyHeaders, limitHeaders({ requests }))
          },
        }
      },
    }
  },
}
