// The reaping of expired holds, which other scripts ask for: a script that finds some changes nothing and answers `reap`.
// Its caller then calls reap.lua, and asks the script again. Each call of reap.lua ends a hundred holds at most.

import { accountKeys } from '../redis/keys.ts'
import { numberAt } from '../redis/scripts.ts'
import type { LedgerScripts } from './library.ts'

/** Which of its expired holds an account has lost before a script is called: none, some or all. The first word of a script's ARGV after the lease. */
export type Reaped = 0 | 1 | 2

export interface ReapingOptions {
  readonly scripts: LedgerScripts
  readonly leaseMs: number
  readonly onReaped: (count: number) => void
}

/** Rejects as `ledger_unavailable` when no reply comes. The holds may then be reaped, but `onReaped` has not counted them. */
export type Reap = (ref: string) => Promise<Exclude<Reaped, 0>>

export function createReap({ scripts, leaseMs, onReaped }: ReapingOptions): Reap {
  return async (ref) => {
    const reply = await scripts.run('reap', accountKeys(ref), [`${leaseMs}`])
    const count = numberAt(reply, 2)
    if (count > 0) onReaped(count)
    const areMoreExpired = numberAt(reply, 3) > 0
    return areMoreExpired ? 1 : 2
  }
}
