// What an account has, as customers and operators are shown it.

import type { AccountIdentity } from './replies.ts'

export type Balance = ReturnType<typeof toBalance>

export function toBalance({ granted, spent, reserved, owed, nowMs }: AccountIdentity) {
  const balance = granted - spent
  return {
    object: 'billing.balance' as const,
    unit: 'token' as const,
    balance,
    reserved,
    available: balance - reserved,
    granted,
    spent,
    /** What was used and could not be paid. Tokens that become available pay this first. */
    owed,
    updated_at: Math.floor(nowMs / 1000),
  }
}
