// The Lua scripts that move money, as redis/scripts.ts loads them.

import { unavailable } from '../redis/scripts.ts'
import type { ScriptLibrary, Scripts, WordsOf } from '../redis/scripts.ts'

/** Why a caller is refused, as lua/admission.lua finds it. */
const refusals = [
  'invalid_api_key',
  'api_key_revoked',
  'api_key_expired',
  'insufficient_scope',
  'account_suspended',
] as const

/** Limits and missing money refuse with these codes; in shadow mode they refuse nobody. */
export const excusable = [
  'invalid_parameter',
  'rate_limit_exceeded',
  'concurrency_limit_exceeded',
  'insufficient_balance',
  'budget_exceeded',
] as const

/** The words that ask for one more call. */
export const askingAgain = ['reap', 'renew', 'plan', 'windows'] as const

export type AskedAgain = (typeof askingAgain)[number]

export type ExcusedCode = (typeof excusable)[number]

/** For a script that charges holds. A script has what it uses and little else, because Redis makes each function of a script anew at each call. */
const charging = ['prelude', 'sums', 'charges', 'windows', 'budget_charges', 'usage'] as const

export const ledgerScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    identify: {
      after: ['prelude', 'windows', 'expired', 'admission'],
      words: ['ok', 'reap', 'renew', 'plan', 'account_not_found', ...refusals],
    },
    caller: {
      after: ['prelude', 'admission', '../../accounts/lua/window'],
      words: ['ok', 'reap', ...refusals],
    },
    admit: {
      after: ['prelude', 'calendar', 'windows', 'budgets', 'expired', 'admission'],
      words: [
        'ok',
        'reap',
        'renew',
        'plan',
        'windows',
        'released',
        'model_not_allowed',
        ...refusals,
        ...excusable,
      ],
    },
    checkpoint: { after: ['prelude'], words: ['ok'] },
    extend: {
      after: ['prelude', 'calendar', 'windows', 'budgets', 'expired'],
      words: ['ok', 'reap', 'windows', 'gone', 'account_suspended'],
    },
    reap: { after: [...charging, 'expired'], words: ['ok'] },
    renew: { after: ['prelude', 'sums', 'calendar'], words: ['ok', 'plan', 'windows'] },
    settle: { after: charging, words: ['ok', 'late', 'account_not_found'] },
    credit: {
      after: ['prelude', 'sums'],
      words: [
        'ok',
        'late',
        'account_not_found',
        'account_deleted',
        'idempotency_key_reused',
        'reference_reused',
        'invalid_parameter',
        'insufficient_balance',
        'more_than_spent',
      ],
    },
    close: {
      after: ['prelude', 'sums', 'expired'],
      words: ['ok', 'reap', 'account_not_found', 'account_not_empty'],
    },
    write_off: {
      after: ['prelude', 'sums', 'expired'],
      words: ['ok', 'reap', 'account_not_found', 'held'],
    },
    trim: { after: ['prelude'], words: ['ok', 'mismatch'] },
    audit: { words: ['ok'] },
  },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

/** The most calls of one script for one request. Between two of them, reap.lua ends 100 holds at most. */
export const maxRounds = 120

export const tooManyRounds = () => unavailable(new Error('A script asked for more too often'))

export type LedgerWords = WordsOf<typeof ledgerScripts>
export type LedgerScripts = Scripts<LedgerWords>
