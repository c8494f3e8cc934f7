// Who may make the gateway ask the identity provider. Anybody can come back with a code, and only the provider knows
// whether it has given it. So few log-ins are asked about at a time, of which an address gets a share, and an address that
// keeps coming with bad ones is not asked about for a while. Counts in this process alone.

import { createAllowance } from '../../accounts/rate.ts'
import type { Levels } from '../../accounts/rate.ts'
import { networkOf } from '../../http/client-address.ts'
import { lasting } from '../../lasting.ts'
import type { Gateway } from '../../plugin.ts'
import { portalSettings } from '../../portal/settings.ts'
import { SharedPool } from '../../sharing/shared-pool.ts'
import { createSlots } from '../../sharing/slots.ts'
import { tooOften } from './access.ts'

/** One address alone gets half: that of a company, where all come at nine, is often one. */
const mostAtOnce = 100

/** A reload gives nobody new tries. */
const counted = lasting(() => ({
  tries: new Map() satisfies Levels,
  slots: createSlots({ pool: new SharedPool(mostAtOnce) }),
}))

export interface ProviderTurn {
  /** Called once. A log-in that let somebody in does not count against the address. */
  end(isGood: boolean): void
}

/** Throws `rate_limit_exceeded`, `concurrency_limit_exceeded` or `overloaded` when the provider must not be asked for this address now. */
export type TakeTurn = (address: string) => ProviderTurn

export function createTurns(gateway: Gateway): TakeTurn {
  const { failures_per_minute_per_ip: failuresPerMinute } = portalSettings.of(gateway.config)
  const { tries, slots } = counted(gateway)
  const allowance = createAllowance(failuresPerMinute, tries)
  return (address) => {
    const network = networkOf(address)
    const waitMs = allowance.waitMs(network)
    if (waitMs > 0) throw tooOften(waitMs, 'Too many log-ins from this address were refused.')
    const giveBack = slots.take(network)
    // Spent before it is known how the log-in ends, or many at once would all be the last one.
    allowance.use(network, 1)
    return {
      end(isGood) {
        giveBack()
        if (isGood) allowance.use(network, -1)
      },
    }
  }
}
