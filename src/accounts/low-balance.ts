// When an account counts as low: the number is the operator's. The header tells clients, and a proxy in front of them, in
// the answers that know the balance anyway.

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

/** Of an account with so many balance tokens available. */
export function isLow(config: Pick<Config, 'plugins'>, available: number): boolean {
  return available < lowBalance.of(config).low_balance
}

/** For an answer: none while the account is not low. */
export function lowBalanceHeaders(
  config: Pick<Config, 'plugins'>,
  available: number,
): Readonly<Record<string, string>> {
  return isLow(config, available) ? { 'x-tollgate-balance-low': String(available) } : {}
}
