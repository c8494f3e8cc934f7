import t from 'tap'
import { keyPage, refuseBeyondPlan } from '../../src/accounts/key-fields.ts'
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

t.test('a page of keys: those next to where it begins, in its own order', async (t) => {
  const all = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id })) as never
  const page = (more: object) => {
    const { data, has_more } = keyPage(all, { limit: 2, order: 'asc', ...more } as never)
    return `${data.map(({ id }) => id).join('')}${has_more ? '…' : ''}`
  }
  for (const [query, expected] of [
    [{}, 'ab…'],
    [{ after: 'b' }, 'cd…'],
    [{ after: 'c' }, 'de'],
    [{ before: 'e' }, 'cd…'],
    [{ before: 'c' }, 'ab'],
    [{ before: 'a' }, ''],
    [{ order: 'desc' }, 'ed…'],
    [{ order: 'desc', after: 'd' }, 'cb…'],
    [{ order: 'desc', before: 'b' }, 'dc…'],
    [{ order: 'desc', before: 'd' }, 'e'],
    // Places whose key has gone since.
    [{ after: 'bb' }, 'cd…'],
    [{ before: 'dd' }, 'cd…'],
  ] as const)
    t.equal(page(query), expected, JSON.stringify(query))
})
