import t from 'tap'
import type { Config, Model } from '../../src/config/config.ts'
import { enforcement, mayUse, quotaOf, quotaWords } from '../../src/accounts/plan.ts'

const plans = new Map([
  ['default', { models: ['*'], storageBytes: 10, storageUnpaidBytes: 1 }],
  ['narrow', { models: ['other'], storageBytes: 99, storageUnpaidBytes: 9 }],
  ['exact', { models: ['m'] }],
]) as unknown as Config['plans']
const identity = (plan: string) => ({ keyId: 'k', accountId: 'a', plan })

t.test('a model may be used where key and plan both allow it', async (t) => {
  const may = (plan: string, models?: readonly string[]) =>
    mayUse({ plan, ...(models && { models }) }, { id: 'm' } as Model, { plans })
  t.equal(may('default', ['*']), true)
  t.equal(may('default', ['m', 'other']), true)
  t.equal(may('exact', ['*']), true)
  t.equal(may('narrow', ['*']), false)
  t.equal(may('default', ['other']), false)
  t.equal(may('default'), false, 'where the models of the key are not known')
  t.equal(may('gone', ['*']), true, 'a plan that is no longer there is the default one')
})

t.test("an account has its plan's room, one of an unknown plan the default's", async (t) => {
  const least = { quotaBytes: 10, unpaidBytes: 1 }
  const more = { quotaBytes: 99, unpaidBytes: 9 }
  const plugins = new Map()
  t.strictSame(quotaOf({ plans, plugins }, { identity: identity('narrow') }), more)
  t.strictSame(quotaOf({ plans, plugins }, { identity: identity('gone') }), least)
  t.strictSame(quotaOf({ plans, plugins }, {}), least)
  t.throws(() => quotaOf({ plans: new Map(), plugins }, {}), { code: 'internal_error' })
})

t.test('in shadow mode an account without money may store as much as the others', async (t) => {
  const plugins = new Map([['metering', { enforce: false }]])
  t.strictSame(quotaOf({ plans, plugins }, {}), { quotaBytes: 10, unpaidBytes: 10 })
  t.equal(enforcement.of({ plugins }).enforce, false)
  t.equal(enforcement.of({ plugins: new Map() }).enforce, true, 'by default limits are enforced')
})

t.test('scripts get both; an account without money has the same by default', async (t) => {
  t.equal(quotaWords({ quotaBytes: 99, unpaidBytes: 9 }), '99 9')
  t.equal(quotaWords({ quotaBytes: 99 }), '99 99')
})
