// What a call may say of a new key, and how a list of keys is cut into pages: for the admin API and the account page.

import { everies } from '../budget.ts'
import type { Config, Plan } from '../config/config.ts'
import { z } from '../config/schema.ts'
import { printable } from '../http/fields.ts'
import { listOf } from '../http/page.ts'
import type { List, Page } from '../http/page.ts'
import { invalid } from '../http/refusals.ts'
import { allScopes } from './account-keys.ts'
import type { KeyFields } from './account-keys.ts'
import type { ApiKey, KeyLimits } from './key-rows.ts'

const scope = z.enum(allScopes, { error: `write ${allScopes.join(', ')}` })
const list = <T extends z.ZodType>(item: T) =>
  z.array(item, { error: 'write a list' }).min(1, { error: 'write at least one' }).max(100)
const positive = z.int({ error: 'write a whole number' }).min(1, { error: 'write at least 1' })

/** What an account or a key may spend in each window. */
export const budget = z.strictObject(
  {
    tokens: z.int({ error: 'write a whole number' }).min(0, { error: 'write 0 or more' }),
    every: z.enum(everies, { error: 'write day, week or month' }),
  },
  { error: 'write {"tokens": 100000, "every": "month"}, or null for none' },
)

export const creation = z.strictObject({
  name: printable(200).optional(),
  scopes: list(scope).optional(),
  models: list(z.string()).optional(),
  expires_at: positive.nullable().optional(),
  limits: z
    .strictObject({
      requests_per_minute: positive.optional(),
      tokens_per_minute: positive.optional(),
      concurrency: positive.optional(),
    })
    .optional(),
  budget: budget.nullable().optional(),
})

const longestGraceS = 30 * 24 * 3600
export const rotation = z.strictObject({
  grace: z
    .int({ error: 'write whole seconds' })
    .min(0, { error: 'write seconds, 0 or more' })
    .max(longestGraceS, { error: 'write at most 30 days, in seconds' })
    .default(0),
})

export const renaming = z.strictObject({ name: printable(200) })

/** Throws `invalid_parameter`. */
export function toKeyFields(
  { name, scopes, models, expires_at: expiresAt, limits, budget }: z.output<typeof creation>,
  config: Config,
): KeyFields {
  if (expiresAt && expiresAt * 1000 <= Date.now())
    throw invalid('expires_at', 'must be a time in the future')
  return {
    ...(name !== undefined && { name }),
    ...(scopes && { scopes: [...new Set(scopes)] }),
    ...(models && { models: namesOf(models, config) }),
    ...(expiresAt && { expiresAt }),
    ...(limits && { limits }),
    ...(budget && { budget }),
  }
}

/** Refuses a key that would name more than its account has: a customer makes keys without the operator. */
export function refuseBeyondPlan({ models = ['*'], limits = {} }: KeyFields, plan: Plan): void {
  const allowed = new Set(plan.models)
  const beyond = models.find((id) => id !== '*' && !allowed.has('*') && !allowed.has(id))
  if (beyond !== undefined)
    throw invalid('models', `has ${JSON.stringify(beyond)}, which is no model of the plan`)
  const most: Required<KeyLimits> = {
    requests_per_minute: plan.requestsPerMinute,
    tokens_per_minute: plan.tokensPerMinute,
    concurrency: plan.concurrency,
  }
  for (const name of ['requests_per_minute', 'tokens_per_minute', 'concurrency'] as const) {
    const limit = limits[name]
    if (limit !== undefined && limit > most[name])
      throw invalid(`limits.${name}`, `must be at most ${most[name]}, the limit of the plan`)
  }
}

/** Replaces aliases by the ids of their models, because the scripts compare only ids. */
function namesOf(names: readonly string[], { models }: Config): readonly string[] {
  const ids = names.map((name) => {
    if (name === '*' || models.has(name)) return name
    const found = [...models.values()].find(({ aliases }) => aliases.includes(name))
    if (!found) throw invalid('models', `has ${JSON.stringify(name)}, which is no model`)
    return found.id
  })
  return [...new Set(ids)]
}

/** Cuts one page out of all keys of an account, which has few. `keys` has the oldest first. */
export function keyPage(
  keys: readonly ApiKey[],
  { limit, after, before, order }: Page,
): List<ApiKey> {
  const isUpwards = order === 'asc'
  const sorted = isUpwards ? keys : keys.toReversed()
  const follows = (a: string, b: string) => (isUpwards ? a > b : a < b)
  if (before !== undefined) {
    const rows = sorted.filter(({ id }) => follows(before, id))
    return listOf(rows.slice(-limit), rows.length > limit)
  }
  const rows = after === undefined ? sorted : sorted.filter(({ id }) => follows(id, after))
  return listOf(rows.slice(0, limit), rows.length > limit)
}
