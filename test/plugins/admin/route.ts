import t from 'tap'
import { json } from '../../../src/exchange.ts'
import { route } from '../../../src/plugins/admin/route.ts'
import { refusal, startAdmin } from '../../fixtures/admin-listener.ts'

t.test('every route is for the admin token; only those that write read a body', async (t) => {
  const serve = async () => json({})
  for (const method of ['GET', 'POST', 'PATCH', 'DELETE'] as const) {
    const body = method === 'POST' || method === 'PATCH' ? 'json' : 'none'
    const expected = { method, path: '/admin/x', listener: 'admin', access: 'admin-token', body }
    t.match(route(method, 'x', serve), expected)
  }
})

t.test('a faulty body is refused with the field at fault', async (t) => {
  const { call } = await startAdmin(t)
  await call('POST accounts', { name: 'a' })
  const cases: readonly (readonly [string, unknown, string, string | null])[] = [
    ['POST accounts', undefined, 'missing_parameter', 'name'],
    ['POST accounts', '{', 'invalid_json', null],
    ['POST accounts', '[]', 'invalid_json', null],
    ['POST accounts', { nmae: 'a' }, 'unknown_parameter', 'nmae'],
    ['POST accounts', { name: 5 }, 'invalid_parameter', 'name'],
    ['POST accounts', { name: '' }, 'invalid_parameter', 'name'],
    ['POST accounts', { name: 'acct_1' }, 'invalid_parameter', 'name'],
    ['POST accounts', { name: 'a\u0000b' }, 'invalid_parameter', 'name'],
    ['POST accounts', { name: 'a', plan: 'none' }, 'invalid_parameter', 'plan'],
    ['POST accounts', { name: 'a', metadata: { k: 1 } }, 'invalid_parameter', 'metadata.k'],
    ['PATCH accounts/a', { status: 'gone' }, 'invalid_parameter', 'status'],
    ['POST accounts', { name: 'a' }, 'invalid_parameter', 'name'],
    ['GET accounts?externalid=cus_1', undefined, 'unknown_parameter', 'externalid'],
    ['GET accounts?after=acct_1', undefined, 'invalid_parameter', 'after'],
    ['GET accounts/a/keys?after=x', undefined, 'invalid_parameter', 'after'],
    ['GET accounts/a/balance?x=1', undefined, 'unknown_parameter', 'x'],
    ['GET audit?acount=a', undefined, 'unknown_parameter', 'acount'],
    ['POST accounts/a/topup', { amount: 0 }, 'invalid_parameter', 'amount'],
    ['POST accounts/a/topup', { amount: -1 }, 'invalid_parameter', 'amount'],
    ['POST accounts/a/topup', { amount: 1.5 }, 'invalid_parameter', 'amount'],
    ['POST accounts/a/topup', { amount: 2 ** 53 }, 'invalid_parameter', 'amount'],
    ['POST accounts/a/topup', {}, 'missing_parameter', 'amount'],
    ['POST accounts/a/adjust', { amount: 5 }, 'missing_parameter', 'note'],
    ['POST accounts/a/keys', { scopes: ['all'] }, 'invalid_parameter', 'scopes.0'],
    ['POST accounts/a/keys', { scopes: [] }, 'invalid_parameter', 'scopes'],
    ['POST accounts/a/keys', { models: ['nothing'] }, 'invalid_parameter', 'models'],
    ['POST accounts/a/keys', { expires_at: 1 }, 'invalid_parameter', 'expires_at'],
    ['POST accounts/a/keys', { limits: { rpm: 1 } }, 'unknown_parameter', 'limits.rpm'],
    ['POST keys/key_x/rotate', { grace: -1 }, 'invalid_parameter', 'grace'],
    ['GET accounts/a/usage?bucket=week', undefined, 'invalid_parameter', 'bucket'],
  ]
  for (const [line, body, code, param] of cases) {
    const answer = await call(line, body)
    t.match(answer, { status: 400, body: refusal(code, param) }, `${line} ${JSON.stringify(body)}`)
  }
})
