// src/caller.ts: nobody's request has no account.

import t from 'tap'
import { refOf } from '../src/caller.ts'

t.test('a caller has an account, and without one the key is missing', async (t) => {
  t.equal(refOf({ caller: { ref: 'aaaaaaaaaaaa', hmac: '' } }), 'aaaaaaaaaaaa')
  t.throws(() => refOf({}), { code: 'missing_api_key' })
})
