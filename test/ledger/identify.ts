// What identify.lua is asked and answers: an identity, or who is refused.

import t from 'tap'
import { identifyCall } from '../../src/ledger/identify.ts'
import type { AskedAgain, LedgerWords } from '../../src/ledger/library.ts'
import { unlimited } from '../fixtures/ledger.ts'

const nowMs = 60_000 * 5 + 1000
const standing = { planName: 'p', plan: unlimited, windows: '1 2 1 2 1 2' }
const byKey = identifyCall({ scope: 'chat' }, false)

type Answer = Exclude<LedgerWords['identify'], AskedAgain>

const identified = (word: Answer, ...values: readonly unknown[]) =>
  byKey.read({ word, nowMs, values: [word, nowMs, ...values] })

t.test('only a look renews an allowance', async (t) => {
  t.same(byKey.words(standing), ['chat', '', ''])
  const operator = identifyCall({ scope: '' }, true)
  t.same(operator.words(standing), ['', 'p', '- - 0 1 2 1 2 1 2'])
})

t.test('an identity, and who is refused', async (t) => {
  const sums = ['1000', '200', '50', '3']
  const window = 'day 1000 9999999999000'
  const windows = ['30 12 7000 p', '100 day', `${window} 40`, '50 day', `${window} 7`]
  const row = ['a', 'A', 'p', 'k', 'm n', ...sums, -1, ...windows]
  t.strictSame(identified('ok', ...row), {
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
  })
  const refused = { word: 'api_key_revoked', caller: { accountId: 'a', keyId: 'k' } }
  t.match(identified('api_key_revoked', 'a', 'k'), refused)
  t.match(identified('invalid_api_key'), { caller: undefined })
})

t.test('a reply that lacks what belongs to its word is ledger_unavailable', async (t) => {
  t.throws(() => identified('ok'), { code: 'ledger_unavailable' })
})
