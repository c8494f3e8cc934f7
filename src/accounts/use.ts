// How much of its limits an account uses now, as the account page shows it: read in one script, so that all figures are
// of one moment.

import type { Config } from '../config/config.ts'
import { keys } from '../redis/keys.ts'
import { createScripts, numberAt } from '../redis/scripts.ts'
import type { ScriptLibrary, ScriptLink } from '../redis/scripts.ts'
import { planNamed, quotaOf } from './plan.ts'

export const useScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: { use: { after: ['storage'], words: ['ok'] } },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

interface InUse {
  readonly limit: number
  readonly used: number
}

export interface LimitsInUse {
  readonly object: 'account.limits'
  readonly plan: string
  /** Ids; `*` allows all. */
  readonly models: readonly string[]
  /** Of requests that ask a model, in this minute. */
  readonly requests_per_minute: InUse
  readonly tokens_per_minute: InUse
  readonly concurrency: InUse
  /** Bytes. */
  readonly storage: InUse
  readonly keys: InUse
  /** When the minute ends, Unix seconds. */
  readonly resets_at: number
}

export interface Using {
  readonly ref: string
  readonly plan: string
  /** How many keys the account's list may have. */
  readonly maxKeys: number
}

export function createUseReader(
  link: ScriptLink,
  config: Pick<Config, 'plans' | 'plugins'>,
): (using: Using) => Promise<LimitsInUse> {
  const scripts = createScripts({ link, library: useScripts })
  return async ({ ref, plan, maxKeys }) => {
    const limits = planNamed(config, plan)
    const { quotaBytes, unpaidBytes } = quotaOf(config, { identity: { plan } })
    const names = [keys.account(ref), keys.holdRows(ref), keys.storage(ref), keys.keyList(ref)]
    const reply = await scripts.run('use', names, [String(quotaBytes), String(unpaidBytes)])
    const of = (limit: number, index: number): InUse => ({ limit, used: numberAt(reply, index) })
    return {
      object: 'account.limits',
      plan,
      models: limits.models,
      requests_per_minute: of(limits.requestsPerMinute, 2),
      tokens_per_minute: of(limits.tokensPerMinute, 3),
      concurrency: of(limits.concurrency, 4),
      storage: of(numberAt(reply, 6), 5),
      keys: of(maxKeys, 7),
      resets_at: Math.floor(reply.nowMs / 60_000 + 1) * 60,
    }
  }
}
