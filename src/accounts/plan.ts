// What an account may do by its plan: which models it may use, how much it may store; and whether a plan and a balance
// refuse anything at all.

import type { Config, Model, Plan } from '../config/config.ts'
import { z } from '../config/schema.ts'
import { settingsOf } from '../config/settings.ts'
import { GatewayError } from '../errors.ts'
import type { Identity } from '../exchange.ts'

type Plans = Pick<Config, 'plans'>

export const enforcement = settingsOf('metering', {
  enforce: z
    .boolean()
    .default(true)
    .describe(
      '`false` is shadow mode: limits and balances are counted, and refuse nobody. `tollgate_would_refuse_total` and the log say who would have been refused. What an account cannot pay is waived.',
    ),
})

/** The plan of this name; the default plan when that name is no longer configured. */
export function planNamed({ plans }: Plans, name: string): Plan {
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
  return allows(planNamed(config, plan).models, id) && allows(models, id)
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

/** By the account's plan, which `identify` or `admit` found out. In shadow mode, an account without money may store as much as the others. */
export function quotaOf(
  config: Pick<Config, 'plans' | 'plugins'>,
  { identity }: { readonly identity?: Pick<Identity, 'plan'> | undefined },
): Required<Quota> {
  const { storageBytes, storageUnpaidBytes } = planNamed(config, identity?.plan ?? 'default')
  const { enforce } = enforcement.of(config)
  return { quotaBytes: storageBytes, unpaidBytes: enforce ? storageUnpaidBytes : storageBytes }
}

/** As scripts take it. */
export function quotaWords({ quotaBytes, unpaidBytes = quotaBytes }: Quota): string {
  return `${quotaBytes} ${unpaidBytes}`
}
