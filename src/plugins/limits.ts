// Requests a minute on routes without a hold. Routes with one are counted by the script that holds, where a refusal
// counts nothing; here a refused request counts too, but only where its key is good: with somebody else's account in an
// invented key, nobody uses up that account's requests.

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
