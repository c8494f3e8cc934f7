// Texts of allowances and budgets: what the scripts write is read, and what they read is written.

import t from 'tap'
import { allowanceWords, parseAllowance, parseCounted } from '../../src/ledger/allowances.ts'

t.test('an allowance', async (t) => {
  t.same(parseAllowance('5 7 9000 a plan'), { left: 5, used: 7, endsMs: 9000 })
  t.equal(parseAllowance(''), undefined)
  t.equal(allowanceWords(undefined), '- - 0')
  const allowance = { tokens: 7, every: 'day', rollover: true } as const
  t.equal(allowanceWords({ allowance }), '7 day 1')
  t.equal(allowanceWords({ allowance: { ...allowance, rollover: false } }), '7 day 0')
})

t.test('where a charge or a hold counts', async (t) => {
  t.same(parseCounted('5 10 - 0 -'), [{ field: 'window', since: 5, tokens: 10 }])
  t.same(parseCounted('- 0 6 20 key_a'), [{ field: 'window:key_a', since: 6, tokens: 20 }])
  t.same(
    parseCounted('5 10 6 60 key_a', 50),
    [
      { field: 'window', since: 5, tokens: 40 },
      { field: 'window:key_a', since: 6, tokens: 0 },
    ],
    'the first tokens of a hold may count in an earlier window',
  )
})
