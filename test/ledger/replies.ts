// What the scripts of an admission answer, read once: each word has its own shape, and nothing is read that is not there.

import t from 'tap'
import { readAdmitted, readIdentified } from '../../src/ledger/replies.ts'
import type { LedgerWords } from '../../src/ledger/library.ts'

const nowMs = 60_000 * 5 + 1000

const admitted = (word: LedgerWords['admit'], ...values: readonly unknown[]) =>
  readAdmitted({ word, nowMs, values: [word, nowMs, ...values] })

const identified = (word: LedgerWords['identify'], ...values: readonly unknown[]) =>
  readIdentified({ word, nowMs, values: [word, nowMs, ...values] })

t.test('a hold, with limits that reset at the end of the minute', async (t) => {
  const [limits, account] = [
    [3, 2, -1, -1],
    ['acct', 'A', 'p', 'key'],
  ]
  t.strictSame(admitted('ok', 1, ...limits, '400', '7', ...account, '9', -1, '', '500'), {
    is: 'answer',
    reaped: 1,
    answer: {
      word: 'ok',
      limits: { requests: { limit: 3, remaining: 2, resetMs: 59_000 }, tokens: undefined },
      amount: 400,
      chargedBefore: 7,
      accountId: 'acct',
      accountName: 'A',
      plan: 'p',
      keyId: 'key',
      owed: 9,
      mostTokens: Infinity,
      wouldRefuse: undefined,
      available: 500,
      nowMs,
    },
  })
  const code = 'insufficient_balance'
  const noted = admitted('ok', 1, ...limits, '0', '0', ...account, '9', -1, code, '0')
  t.match(noted, { answer: { wouldRefuse: 'insufficient_balance' } })
})

t.test('a refusal, with what was reached; of an unknown key nothing is known', async (t) => {
  const limits = [3, 0, 100, 5]
  t.strictSame(
    admitted('rate_limit_exceeded', 0, ...limits, 'requests', '40', 'a', 'k', '0', 100, '7000', 1),
    {
      is: 'answer',
      reaped: 0,
      answer: {
        word: 'rate_limit_exceeded',
        limits: {
          requests: { limit: 3, remaining: 0, resetMs: 59_000 },
          tokens: { limit: 100, remaining: 5, resetMs: 59_000 },
        },
        which: 'requests',
        available: 40,
        caller: { accountId: 'a', keyId: 'k' },
        owed: 0,
        mostTokens: 100,
        renewsAtMs: 7000,
        isHeld: true,
      },
    },
  )
  t.match(admitted('invalid_api_key', 0), {
    is: 'answer',
    answer: { word: 'invalid_api_key', limits: undefined, caller: undefined, owed: 0 },
  })
})

t.test('what is to be asked again', async (t) => {
  t.strictSame(admitted('again', 100), { is: 'again', reaped: 100 })
  t.strictSame(admitted('plan', 'large'), { is: 'plan', reaped: 0, plan: 'large' })
  t.strictSame(identified('again', 100), { is: 'again', reaped: 100 })
})

t.test('an identity, and who is refused', async (t) => {
  const sums = ['1000', '200', '50', '3']
  const window = 'day 1000 9999999999000'
  const windows = ['30 12 7000 p', '100 day', `${window} 40`, '50 day', `${window} 7`]
  const row = ['a', 'A', 'p', 'k', 'm n', ...sums, 'active', -1, ...windows]
  t.strictSame(identified('ok', 0, ...row), {
    is: 'answer',
    reaped: 0,
    answer: {
      word: 'ok',
      identity: {
        accountId: 'a',
        accountName: 'A',
        plan: 'p',
        keyId: 'k',
        models: ['m', 'n'],
        granted: 1000,
        spent: 200,
        reserved: 50,
        owed: 3,
        tokensPerMinute: undefined,
        allowance: { left: 30, used: 12, endsMs: 7000 },
        budget: { tokens: 100, every: 'day', used: 40, renews_at: 9_999_999_999 },
        keyBudget: { tokens: 50, every: 'day', used: 7, renews_at: 9_999_999_999 },
        nowMs,
      },
    },
  })
  const refused = { word: 'api_key_revoked', caller: { accountId: 'a', keyId: 'k' } }
  t.match(identified('api_key_revoked', 0, 'a', 'k'), { answer: refused })
  t.match(identified('invalid_api_key', 0), { answer: { caller: undefined } })
})

t.test('a reply that lacks what belongs to its word is ledger_unavailable', async (t) => {
  t.throws(() => admitted('ok', 0), { code: 'ledger_unavailable' })
  t.throws(() => identified('ok', 0), { code: 'ledger_unavailable' })
  t.throws(() => admitted('plan'), { code: 'ledger_unavailable' })
})
