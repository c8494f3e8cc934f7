// What an account has, as customers and operators are shown it.

import type { BudgetState } from '../budget.ts'
import type { Plan } from '../config/config.ts'
import type { AccountIdentity } from './identify.ts'

export type Balance = ReturnType<typeof toBalance>

export function toBalance(account: AccountIdentity, plan: Plan | undefined) {
  const { granted, spent, reserved, owed, budget, keyBudget, nowMs } = account
  const balance = granted - spent
  return {
    object: 'billing.balance' as const,
    unit: 'token' as const,
    balance,
    reserved,
    /** What a request of the asking key may spend. If no key asks: what a key without a budget of its own may spend. */
    available: Math.min(balance - reserved, leftOf(budget), leftOf(keyBudget)),
    granted,
    spent,
    /** What was used and could not be paid. Tokens that become available pay this first. */
    owed,
    /** What the plan gives for each day, week or month: a part of the balance, which is spent first. */
    allowance: toAllowance(account, plan),
    /** What may be spent in each day, week or month. */
    budget: budget ?? null,
    /** The same for the key that asks. */
    key_budget: keyBudget ?? null,
    updated_at: Math.floor(nowMs / 1000),
  }
}

function leftOf(budget: BudgetState | undefined): number {
  return budget ? Math.max(0, budget.tokens - budget.used) : Infinity
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
