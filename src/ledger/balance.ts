// What an account has, as customers and operators are shown it.

import type { AccountIdentity } from './replies.ts'

export interface Balance {
  readonly object: 'billing.balance'
  readonly unit: 'token'
  readonly balance: number
  readonly reserved: number
  readonly available: number
  readonly granted: number
  readonly spent: number
  /** What was used and could not be paid. Tokens that become available pay this first. */
  readonly owed: number
  readonly updated_at: number
}

export function toBalance({ granted, spent, reserved, owed, nowMs }: AccountIdentity): Balance {
  const balance = granted - spent
  return {
    object: 'billing.balance',
    unit: 'token',
    balance,
    reserved,
    available: balance - reserved,
    granted,
    spent,
    owed,
    updated_at: Math.floor(nowMs / 1000),
  }
}
