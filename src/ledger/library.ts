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

export type ExcusedCode = (typeof excusable)[number]

/** For scripts that charge holds, for those that a request waits for, and for those that close an account. */
const charging = ['prelude', 'usage', 'budgets'] as const
const admitting = ['prelude', 'budgets', 'expired', 'admission'] as const
const closing = ['prelude', 'expired'] as const

export const ledgerScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    identify: {
      after: admitting,
      words: ['ok', 'reap', 'renew', 'plan', 'account_not_found', ...refusals],
    },
    admit: {
      after: admitting,
      words: [
        'ok',
        'reap',
        'renew',
        'plan',
        'clock',
        'released',
        'model_not_allowed',
        ...refusals,
        ...excusable,
      ],
    },
    checkpoint: { after: ['prelude'], words: ['ok'] },
    extend: {
      after: admitting,
      words: ['ok', 'reap', 'clock', 'gone', 'account_suspended'],
    },
    reap: { after: charging, words: ['ok'] },
    renew: { after: ['prelude'], words: ['ok', 'plan', 'clock'] },
    settle: { after: charging, words: ['ok', 'late', 'account_not_found'] },
    credit: {
      after: ['prelude'],
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
      after: closing,
      words: ['ok', 'reap', 'account_not_found', 'account_not_empty'],
    },
    write_off: {
      after: closing,
      words: ['ok', 'reap', 'account_not_found', 'held'],
    },
    trim: { after: ['prelude'], words: ['ok', 'mismatch'] },
    audit: { words: ['ok'] },
  },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

/** How often a script is called for one request. Between two of its calls, reap.lua ends 100 holds at most. */
export const maxRounds = 120

export const tooManyRounds = () => unavailable(new Error('A script asked for more too often'))

export type LedgerWords = WordsOf<typeof ledgerScripts>
export type LedgerScripts = Scripts<LedgerWords>
