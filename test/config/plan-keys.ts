// The keys of a plan: their defaults, and what is refused.

import t from 'tap'
import { plans } from '../../src/config/plan-keys.ts'

t.test('an empty plan is complete, and no limit is zero by accident', async (t) => {
  const { free } = plans.parse({ free: {} })
  t.match(free, { requests_per_minute: Number, tokens_per_minute: Number, concurrency: Number })
  t.notOk(plans.safeParse({ free: { concurrency: -1 } }).success)
})

t.test('an allowance needs its tokens, and is for a month that keeps nothing', async (t) => {
  const { free } = plans.parse({ free: { allowance: { tokens: 1000 } } })
  t.same(free?.allowance, { tokens: 1000, every: 'month', rollover: false })
  const bad = [
    {},
    { tokens: 0 },
    { tokens: 1.5 },
    { tokens: 5, every: 'hour' },
    { tokens: 5, a: 1 },
  ]
  for (const allowance of bad) t.notOk(plans.safeParse({ free: { allowance } }).success)
})
