// The rows of API keys in Redis, read as the admin API shows them. A key's text is in none of them.

import { keyWindow, parseBudget } from '../budget.ts'
import type { BudgetState } from '../budget.ts'
import type { Redis } from '../redis/client.ts'
import { keys } from '../redis/keys.ts'

/** As the admin API shows it. */
export interface ApiKey {
  readonly id: string
  readonly object: 'api_key'
  readonly account_id: string
  readonly name: string
  readonly hint: string
  readonly scopes: readonly string[]
  /** `*` allows all. */
  readonly models: readonly string[]
  readonly limits: KeyLimits
  /** A cap on what the key may spend, below the account's balance and budget. */
  readonly budget: BudgetState | null
  readonly expires_at: number | null
  readonly revoked_at: number | null
  readonly last_used_at: number | null
  readonly created_at: number
  readonly status: 'active' | 'expired' | 'revoked'
}

/** Each applies in addition to the plan's limit; where one is absent, only the plan's limit holds. */
export interface KeyLimits {
  readonly requests_per_minute?: number
  readonly tokens_per_minute?: number
  readonly concurrency?: number
}

export type KeyRow = Readonly<Record<string, string>>

/** In the order of `hmacs`. A missing row is read as a key without an id. */
export async function readKeys(
  redis: Redis,
  ref: string,
  hmacs: readonly string[],
): Promise<readonly ApiKey[]> {
  const [nowS, accountId, rows] = await Promise.all([
    redisSeconds(redis),
    redis.hget(keys.account(ref), 'id'),
    Promise.all(hmacs.map((hmac) => redis.hgetall(keys.key(ref, hmac)))),
  ])
  const windows = await windowsOf(redis, ref, rows)
  return rows.map((row, i) => shape(row, { accountId: accountId ?? '', nowS, window: windows[i] }))
}

/** The last window of each key's budget; undefined for a key without a budget. */
function windowsOf(redis: Redis, ref: string, rows: readonly KeyRow[]) {
  return Promise.all(
    rows.map(async ({ id = '', budget, budget_of = id }) => {
      const known = parseBudget(budget, undefined, 0)
      return known && (await redis.hget(keys.account(ref), keyWindow(budget_of, known)))
    }),
  )
}

interface KeyContext {
  readonly accountId: string
  readonly nowS: number
  readonly window: string | null | undefined
}

function shape(row: KeyRow, { accountId, nowS, window }: KeyContext): ApiKey {
  return {
    id: row.id ?? '',
    object: 'api_key',
    account_id: accountId,
    name: row.name ?? '',
    hint: row.hint ?? '',
    scopes: words(row.scopes),
    models: words(row.models),
    limits: limitsOf(row),
    budget: parseBudget(row.budget, window, nowS * 1000) ?? null,
    expires_at: seconds(row.expires_at),
    revoked_at: seconds(row.revoked_at),
    last_used_at: seconds(row.last_used_at),
    created_at: Number(row.created_at ?? 0),
    status: statusOf(row, nowS),
  }
}

export function statusOf(row: KeyRow, nowS: number): ApiKey['status'] {
  if (Number(row.revoked_at ?? Infinity) <= nowS) return 'revoked'
  return Number(row.expires_at ?? Infinity) <= nowS ? 'expired' : 'active'
}

function limitsOf({ rpm, tpm, concurrency }: KeyRow): KeyLimits {
  return {
    ...(rpm ? { requests_per_minute: Number(rpm) } : {}),
    ...(tpm ? { tokens_per_minute: Number(tpm) } : {}),
    ...(concurrency ? { concurrency: Number(concurrency) } : {}),
  }
}

function words(text: string | undefined): readonly string[] {
  return text ? text.split(' ') : []
}

function seconds(text: string | undefined): number | null {
  return text ? Number(text) : null
}

/** Redis' own seconds: a gateway's clock that runs ahead must not make a revocation wait. */
export async function redisSeconds(redis: Redis): Promise<number> {
  const [seconds] = await redis.time()
  return Number(seconds)
}
