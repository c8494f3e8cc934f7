import t from 'tap'
import type { Config } from '../../src/config/config.ts'
import { quotaOf, quotaWords } from '../../src/accounts/quota.ts'

const plans = new Map([
  ['default', { storageBytes: 10, unpaidStorageBytes: 1 }],
  ['pro', { storageBytes: 99, unpaidStorageBytes: 9 }],
]) as unknown as Config['plans']
const identity = (plan: string) => ({ keyId: 'k', accountId: 'a', plan })

t.test("an account has its plan's storage, an unknown plan the default plan's", async (t) => {
  const least = { quotaBytes: 10, unpaidBytes: 1 }
  t.strictSame(quotaOf({ plans }, { identity: identity('pro') }), {
    quotaBytes: 99,
    unpaidBytes: 9,
  })
  t.strictSame(quotaOf({ plans }, { identity: identity('gone') }), least)
  t.strictSame(quotaOf({ plans }, {}), least)
  t.throws(() => quotaOf({ plans: new Map() }, {}), { code: 'internal_error' })
})

t.test(
  'scripts get both quotas; an account without money has the same one unless the plan says otherwise',
  async (t) => {
    t.equal(quotaWords({ quotaBytes: 99, unpaidBytes: 9 }), '99 9')
    t.equal(quotaWords({ quotaBytes: 99 }), '99 99')
  },
)
