// The reaping of expired holds, which other scripts ask for: a script that finds some changes nothing and answers `reap`.
// Its caller then calls reap.lua, and asks the script again.

import { accountKeys } from '../redis/keys.ts'
import { numberAt } from '../redis/scripts.ts'
import type { LedgerScripts } from './library.ts'

export interface ReapingOptions {
  readonly scripts: LedgerScripts
  readonly leaseMs: number
  readonly onReaped: (count: number) => void
}

/** Ends a hundred expired holds at most. Rejects as `ledger_unavailable` when no reply comes. The holds may then be reaped, but `onReaped` has not counted them. */
export async function reap({ scripts, leaseMs, onReaped }: ReapingOptions, ref: string) {
  const reply = await scripts.run('reap', accountKeys(ref), [`${leaseMs}`])
  const count = numberAt(reply, 2)
  if (count > 0) onReaped(count)
}
