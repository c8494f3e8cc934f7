import t from 'tap'
import { refusal, startAdmin } from '../../fixtures/admin-listener.ts'
import type { AdminAnswer } from '../../fixtures/admin-listener.ts'

t.test('an account is made, found by id and name, changed and listed', async (t) => {
  const { call } = await startAdmin(t)
  const given = { name: 'Ana & Söhne/1', plan: 'big', external_id: 'x', metadata: { team: 'chat' } }
  const { status, body: made } = await call('POST accounts', given)
  t.equal(status, 201)
  t.match(made, { object: 'account', id: /^acct_/, status: 'active', ...given })
  t.strictSame((await call(`GET accounts/${made.id}`)).body, made)
  t.strictSame((await call(`GET accounts/${encodeURIComponent(given.name)}`)).body, made)
  const changed = await call(`PATCH accounts/${made.id}`, {
    status: 'suspended',
    external_id: null,
  })
  t.strictSame(changed.body, { ...made, status: 'suspended', external_id: null })
  t.match((await call('GET accounts')).body, {
    object: 'list',
    data: [changed.body],
    has_more: false,
  })
  t.match(await call('GET accounts/nobody'), { status: 404, body: refusal('account_not_found') })
})

t.test('the list is newest first and can be paged', async (t) => {
  const { call } = await startAdmin(t)
  for (const name of ['a', 'b', 'c']) await call('POST accounts', { name })
  const names = ({ body }: AdminAnswer) => body.data.map(({ name }) => name)
  const first = await call('GET accounts?limit=2')
  t.strictSame(names(first), ['c', 'b'])
  t.equal(first.body.has_more, true)
  t.strictSame(names(await call(`GET accounts?after=${first.body.last_id}`)), ['a'])
  t.strictSame(names(await call('GET accounts?order=asc&limit=1')), ['a'])
  t.match(await call('GET accounts?limit=0'), {
    status: 400,
    body: refusal('invalid_parameter', 'limit'),
  })
})

t.test('a filter finds one account, and must be given once', async (t) => {
  const { call } = await startAdmin(t)
  for (const name of ['a', 'b']) await call('POST accounts', { name, external_id: `cus_${name}` })
  const found = async (query: string) =>
    (await call(`GET accounts?${query}`)).body.data.map(({ name }) => name)
  t.strictSame(await found('external_id=cus_a'), ['a'])
  t.strictSame(await found('name=b'), ['b'])
  t.strictSame(await found('name=b&external_id=cus_a'), [])
  // An ambiguous filter is refused: a script tops up the account that it gets.
  for (const query of ['external_id=cus_a&external_id=cus_b', 'external_id=']) {
    t.match(await call(`GET accounts?${query}`), {
      status: 400,
      body: refusal('invalid_parameter', 'external_id'),
    })
  }
  const twice = { status: 400, body: refusal('invalid_parameter', 'account') }
  t.match(await call('GET audit?account=a&account=b'), twice)
})
