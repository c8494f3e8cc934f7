// What scripts write of allowances and budgets is read.

import t from 'tap'
import { parseAllowance, parseCounted } from '../../src/ledger/allowances.ts'

t.test('an allowance', async (t) => {
  t.same(parseAllowance('5 7 9000 a plan'), { left: 5, used: 7, endsMs: 9000 })
  t.equal(parseAllowance(''), undefined)
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
