// The Lua scripts that move money, as redis/scripts.ts loads them.

import { keys } from '../redis/redis.ts'
import type { ScriptLibrary, Scripts } from '../redis/scripts.ts'

export const ledgerScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    identify: ['prelude', 'admission'],
    admit: ['prelude', 'admission'],
    checkpoint: ['prelude'],
    settle: ['prelude'],
    credit: ['prelude'],
    trim: ['prelude'],
  },
} satisfies ScriptLibrary<string>

export type LedgerScript = keyof typeof ledgerScripts.scripts
export type LedgerScripts = Scripts<LedgerScript>

/** The keys that every script declares first. A script derives the keys of an hour itself, because only Redis knows which hour it is. */
export const accountKeys = (ref: string): readonly string[] => [
  keys.account(ref),
  keys.holds(ref),
  keys.open(ref),
  keys.journal(ref),
]
