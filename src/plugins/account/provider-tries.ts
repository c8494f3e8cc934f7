// Who may make the gateway ask the identity provider. Anybody can come back with a code, and only the provider knows
// whether it has given that code. Therefore the gateway asks about a limited number of log-ins at a time, and each address
// has a share of these; after too many bad log-ins from an address, it has to wait. Counted in this process alone.

import { createRate } from '../../accounts/rate.ts'
import type { Levels } from '../../accounts/rate.ts'
import { asGatewayError, hasCode } from '../../errors.ts'
import type { GatewayError } from '../../errors.ts'
import { networkOf } from '../../http/client-address.ts'
import { keptThroughReloads } from '../../kept-through-reloads.ts'
import type { Gateway } from '../../plugin.ts'
import { portalSettings } from '../../portal/settings.ts'
import { SharedPool } from '../../sharing/shared-pool.ts'
import { createSlots } from '../../sharing/slots.ts'

/** One address alone gets half: the people of a company, who all come at nine, often share one. */
const mostAtOnce = 100

/** A reload gives nobody new tries. */
const counted = keptThroughReloads(() => ({
  tries: new Map() satisfies Levels,
  slots: createSlots({ pool: new SharedPool(mostAtOnce) }),
}))

interface LogInTry<T> {
  /** Asks the provider. Throws when nobody is let in. */
  readonly letIn: () => Promise<T>
  /** Called in place of `letIn` when the address has to wait: `rate_limit_exceeded`, `concurrency_limit_exceeded` or `overloaded`. */
  readonly wait: (error: GatewayError) => T
}

export function createProviderTries(gateway: Gateway) {
  const { failures_per_minute_per_ip: failuresPerMinute } = portalSettings.of(gateway.config)
  const { tries, slots } = counted(gateway)
  const rate = createRate(failuresPerMinute, tries)
  const begin = (network: string) => {
    const refusal = rate.refusal(network, 'Too many log-ins from this address were refused.')
    if (refusal) throw refusal
    const giveBack = slots.take(network)
    // A try is spent before its log-in ends. Otherwise many at once would each pass as the last one.
    rate.use(network, 1)
    return giveBack
  }
  return async <T>(address: string, { letIn, wait }: LogInTry<T>): Promise<T> => {
    const network = networkOf(address)
    let giveBack: () => void
    try {
      giveBack = begin(network)
    } catch (error) {
      return wait(asGatewayError(error))
    }
    try {
      const answer = await letIn()
      rate.use(network, -1)
      return answer
    } catch (error) {
      // That Redis is away is not the fault of an address.
      if (hasCode(error, 'ledger_unavailable')) rate.use(network, -1)
      throw error
    } finally {
      giveBack()
    }
  }
}
