// Which models a caller may use: those that both the key and the account's plan allow.

import type { Config, Model } from '../config/config.ts'
import type { Identity } from '../exchange.ts'

export function mayUse(
  { plan, models = [] }: Pick<Identity, 'plan' | 'models'>,
  { id }: Model,
  { plans }: Pick<Config, 'plans'>,
): boolean {
  const allowed = (plans.get(plan) ?? plans.get('default'))?.models ?? []
  return allows(allowed, id) && allows(models, id)
}

function allows(list: readonly string[], id: string): boolean {
  return list.includes('*') || list.includes(id)
}
