// How much an account may have in the store.

import type { Config } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import type { Exchange } from '../exchange.ts'

/** By the account's plan, which `identify` or `admit` found out. */
export function quotaOf(
  { plans }: Pick<Config, 'plans'>,
  { caller }: Pick<Exchange, 'caller'>,
): number {
  const plan = plans.get(caller?.plan ?? 'default') ?? plans.get('default')
  if (!plan) throw new GatewayError('internal_error')
  return plan.storageBytes
}
