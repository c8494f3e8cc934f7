import t from 'tap'
import { refuseBeyondPlan } from '../../src/accounts/key-fields.ts'
import { unlimited } from '../fixtures/ledger.ts'

t.test(
  'a key of a customer is bounded by the plan; one that says nothing has what the plan has',
  async (t) => {
    const plan = { ...unlimited, models: ['m'], concurrency: 3 }
    refuseBeyondPlan({}, plan)
    refuseBeyondPlan({ models: ['*'], limits: { concurrency: 3 } }, plan)
    refuseBeyondPlan({ models: ['other'] }, unlimited)
    t.throws(() => refuseBeyondPlan({ models: ['m', 'other'] }, plan), {
      code: 'invalid_parameter',
      param: 'models',
    })
    t.throws(() => refuseBeyondPlan({ limits: { concurrency: 4 } }, plan), {
      code: 'invalid_parameter',
      param: 'limits.concurrency',
    })
  },
)
