// When an account counts as low: the operator sets the threshold. A header tells clients, and a proxy in front of them,
// in answers for which the balance is known anyway.

import type { Config } from '../config/config.ts'
import { z } from '../config/schema.ts'
import { settingsOf } from '../config/settings.ts'

export const lowBalance = settingsOf('account', {
  low_balance: z
    .int()
    .min(0)
    .default(0)
    .describe('An account with fewer balance tokens available is marked as low; 0: none is.'),
})

/** Whether an account with this many balance tokens available is low. */
export function isLow(config: Pick<Config, 'plugins'>, available: number): boolean {
  return available < lowBalance.of(config).low_balance
}

/** The headers of an answer; none unless the account is low. */
export function lowBalanceHeaders(
  config: Pick<Config, 'plugins'>,
  available: number,
): Readonly<Record<string, string>> {
  return isLow(config, available) ? { 'x-tollgate-balance-low': String(available) } : {}
}
