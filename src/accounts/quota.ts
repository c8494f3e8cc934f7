// How much an account may store: files and sessions together.

import type { Config } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import type { Exchange } from '../exchange.ts'

export interface Quota {
  readonly quotaBytes: number
  /** The quota of an account without money. Default: `quotaBytes`. */
  readonly unpaidBytes?: number
}

/** By the account's plan, which `identify` or `admit` found out. */
export function quotaOf(
  { plans }: Pick<Config, 'plans'>,
  { identity }: Pick<Exchange, 'identity'>,
): Required<Quota> {
  const plan = plans.get(identity?.plan ?? 'default') ?? plans.get('default')
  if (!plan) throw new GatewayError('internal_error')
  return { quotaBytes: plan.storageBytes, unpaidBytes: plan.unpaidStorageBytes }
}

/** As scripts take it. */
export function quotaWords({ quotaBytes, unpaidBytes = quotaBytes }: Quota): string {
  return `${quotaBytes} ${unpaidBytes}`
}
