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

/**
 * The files that stand before each script, so that it has what it uses and little else: Redis makes each function of a
 * script anew at each call. `prelude` is first, the others follow in any order that their headers allow.
 */
const before = {
  admit: ['prelude', 'calendar', 'windows', 'budgets', 'expired', 'admission'],
  extend: ['prelude', 'calendar', 'windows', 'budgets', 'expired'],
  identify: ['prelude', 'windows', 'expired', 'admission'],
  reap: ['prelude', 'sums', 'charges', 'windows', 'budget_charges', 'usage'],
  renew: ['prelude', 'sums', 'calendar'],
  checkpoint: ['prelude'],
  settle: ['prelude', 'sums', 'charges', 'windows', 'budget_charges', 'usage'],
  credit: ['prelude', 'sums'],
  close: ['prelude', 'sums', 'expired'],
  write_off: ['prelude', 'sums', 'expired'],
  trim: ['prelude'],
} as const

export const ledgerScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    identify: {
      after: before.identify,
      words: ['ok', 'reap', 'renew', 'plan', 'account_not_found', ...refusals],
    },
    admit: {
      after: before.admit,
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
    checkpoint: { after: before.checkpoint, words: ['ok'] },
    extend: {
      after: before.extend,
      words: ['ok', 'reap', 'clock', 'gone', 'account_suspended'],
    },
    reap: { after: before.reap, words: ['ok'] },
    renew: { after: before.renew, words: ['ok', 'plan', 'clock'] },
    settle: { after: before.settle, words: ['ok', 'late', 'account_not_found'] },
    credit: {
      after: before.credit,
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
      after: before.close,
      words: ['ok', 'reap', 'account_not_found', 'account_not_empty'],
    },
    write_off: {
      after: before.write_off,
      words: ['ok', 'reap', 'account_not_found', 'held'],
    },
    trim: { after: before.trim, words: ['ok', 'mismatch'] },
    audit: { words: ['ok'] },
  },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

/** How often a script is called for one request. Between two of its calls, reap.lua ends 100 holds at most. */
export const maxRounds = 120

export const tooManyRounds = () => unavailable(new Error('A script asked for more too often'))

export type LedgerWords = WordsOf<typeof ledgerScripts>
export type LedgerScripts = Scripts<LedgerWords>
