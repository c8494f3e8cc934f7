import t from 'tap'
import { GatewayError } from '../../src/errors.ts'
import { asked } from '../../src/redis/asked.ts'

t.test('an answer passes', async (t) => {
  t.equal(await asked(Promise.resolve(1)), 1)
})

t.test('a failure of Redis is ledger_unavailable with its cause; our errors pass', async (t) => {
  const cause = new Error('Connection is closed.')
  await t.rejects(asked(Promise.reject(cause)), { code: 'ledger_unavailable', cause })
  const ours = new GatewayError('account_not_found')
  await t.rejects(asked(Promise.reject(ours)), { code: 'account_not_found' })
  await t.rejects(asked(Promise.reject(new TypeError('bug'))), TypeError)
})
