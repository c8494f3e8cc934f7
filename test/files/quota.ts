import t from 'tap'
import type { Config } from '../../src/config/config.ts'
import { quotaOf } from '../../src/files/quota.ts'

const plans = new Map([
  ['default', { storageBytes: 10 }],
  ['pro', { storageBytes: 99 }],
]) as unknown as Config['plans']
const caller = (plan?: string) => ({ ref: 'r', hmac: 'h', ...(plan !== undefined && { plan }) })

t.test("an account has its plan's room, one of an unknown plan the default's", async (t) => {
  t.equal(quotaOf({ plans }, { caller: caller('pro') }), 99)
  t.equal(quotaOf({ plans }, { caller: caller('gone') }), 10)
  t.equal(quotaOf({ plans }, { caller: caller() }), 10)
  t.throws(() => quotaOf({ plans: new Map() }, { caller: caller() }), { code: 'internal_error' })
})
