// The Lua scripts that move money, as redis/scripts.ts loads them.

import { keys } from '../redis/redis.ts'
import type { ScriptLibrary, Scripts, WordsOf } from '../redis/scripts.ts'

/** Why a caller is refused, as lua/admission.lua finds it. */
const refusals = [
  'invalid_api_key',
  'api_key_revoked',
  'api_key_expired',
  'insufficient_scope',
  'account_suspended',
] as const

export const ledgerScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    identify: {
      after: ['prelude', 'admission'],
      words: ['ok', 'again', 'account_not_found', ...refusals],
    },
    admit: {
      after: ['prelude', 'admission'],
      words: [
        'ok',
        'plan',
        'again',
        ...refusals,
        'model_not_allowed',
        'invalid_parameter',
        'rate_limit_exceeded',
        'concurrency_limit_exceeded',
        'insufficient_balance',
        'released',
      ],
    },
    checkpoint: { after: ['prelude'], words: ['ok'] },
    settle: { after: ['prelude'], words: ['ok', 'late', 'account_not_found'] },
    credit: {
      after: ['prelude'],
      words: [
        'ok',
        'late',
        'account_not_found',
        'idempotency_key_reused',
        'invalid_parameter',
        'insufficient_balance',
      ],
    },
    trim: { after: ['prelude'], words: ['ok', 'mismatch'] },
  },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

export type LedgerWords = WordsOf<typeof ledgerScripts>
export type LedgerScripts = Scripts<LedgerWords>

/** The keys that every script declares first. A script derives the keys of an hour itself, because only Redis knows which hour it is. */
export const accountKeys = (ref: string): readonly string[] => [
  keys.account(ref),
  keys.holdLeases(ref),
  keys.holdRows(ref),
  keys.journal(ref),
]
