// What an account may do by its plan: which models it may use, how much it may store.

import type { Config, Model, Plan } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import type { Exchange, Identity } from '../exchange.ts'

type Plans = Pick<Config, 'plans'>

/** A plan that is no longer configured is the default one. */
function planOf({ plans }: Plans, name: string): Plan {
  const plan = plans.get(name) ?? plans.get('default')
  if (!plan) throw new GatewayError('internal_error')
  return plan
}

/** Whether both the key and the plan of a caller allow the model. */
export function mayUse(
  { plan, models = [] }: Pick<Identity, 'plan' | 'models'>,
  { id }: Model,
  config: Plans,
): boolean {
  return allows(planOf(config, plan).models, id) && allows(models, id)
}

function allows(list: readonly string[], id: string): boolean {
  return list.includes('*') || list.includes(id)
}

/** How much an account may store: files and sessions together. */
export interface Quota {
  readonly quotaBytes: number
  /** The quota of an account without money. Default: `quotaBytes`. */
  readonly unpaidBytes?: number
}

/** By the account's plan, which `identify` or `admit` found out. */
export function quotaOf(config: Plans, { identity }: Pick<Exchange, 'identity'>): Required<Quota> {
  const { storageBytes, storageUnpaidBytes } = planOf(config, identity?.plan ?? 'default')
  return { quotaBytes: storageBytes, unpaidBytes: storageUnpaidBytes }
}

/** As scripts take it. */
export function quotaWords({ quotaBytes, unpaidBytes = quotaBytes }: Quota): string {
  return `${quotaBytes} ${unpaidBytes}`
}
