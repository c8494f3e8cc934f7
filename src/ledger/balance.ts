// What an account has, as customers and operators are shown it.

import type { Plan } from '../config/config.ts'
import type { AccountIdentity } from './replies.ts'

export type Balance = ReturnType<typeof toBalance>

export function toBalance(account: AccountIdentity, plan: Plan | undefined) {
  const { granted, spent, reserved, owed, budget, nowMs } = account
  const balance = granted - spent
  const ofBudget = budget ? Math.max(0, budget.tokens - budget.used) : Infinity
  return {
    object: 'billing.balance' as const,
    unit: 'token' as const,
    balance,
    reserved,
    /** For a request of a key without a budget of its own. */
    available: Math.min(balance - reserved, ofBudget),
    granted,
    spent,
    /** What was used and could not be paid. Tokens that become available pay this first. */
    owed,
    /** What the plan gives for each day, week or month: a part of the balance, which is spent first. */
    allowance: toAllowance(account, plan),
    /** What may be spent in each day, week or month. */
    budget: budget ?? null,
    updated_at: Math.floor(nowMs / 1000),
  }
}

function toAllowance({ allowance, granted, spent }: AccountIdentity, plan: Plan | undefined) {
  const given = plan?.allowance
  if (!given && !allowance?.left) return null
  return {
    tokens: given?.tokens ?? 0,
    every: given?.every ?? null,
    left: Math.min(allowance?.left ?? 0, granted - spent),
    renews_at: allowance ? Math.floor(allowance.endsMs / 1000) : null,
  }
}
