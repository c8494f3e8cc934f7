import t from 'tap'
import { refusal, startAdmin } from '../../fixtures/admin-listener.ts'

t.test('a key is shown once, limited as asked, and listed without its text', async (t) => {
  const { call } = await startAdmin(t)
  const { body: account } = await call('POST accounts', { name: 'a' })
  const given = {
    name: 'n',
    scopes: ['chat', 'chat'],
    models: ['nick'],
    limits: { concurrency: 1 },
  }
  const { status, body } = await call('POST accounts/a/keys', given)
  t.equal(status, 201)
  t.match(body, { key: /^tg_live_/, object: 'api_key', account_id: account.id, scopes: ['chat'] })
  t.strictSame(body.models, ['m'], 'an alias is kept as the model that scripts compare')
  const { key, ...shown } = body
  t.strictSame((await call('GET accounts/a/keys')).body.data, [shown])
  t.ok(key)
  const { body: all } = await call('POST accounts/a/keys')
  t.match(all, {
    models: ['*'],
    scopes: ['chat', 'sessions', 'files', 'billing'],
    status: 'active',
  })
  t.match((await call('GET accounts/a/keys?limit=1')).body, {
    data: [{ id: all.id }],
    has_more: true,
  })
  t.match((await call(`GET accounts/a/keys?before=${body.id}`)).body.data, [{ id: all.id }])
  t.match((await call(`GET accounts/a/keys?after=${all.id}`)).body.data, [{ id: body.id }])
})

t.test('a key has a budget, which a rotation keeps with what it has spent', async (t) => {
  const { call } = await startAdmin(t)
  await call('POST accounts', { name: 'a' })
  const budget = { tokens: 5, every: 'day' }
  const { body: key } = await call('POST accounts/a/keys', { budget })
  t.match(key.budget, { ...budget, used: 0, renews_at: null })
  const { body: rotated } = await call(`POST keys/${key.id}/rotate`)
  t.match(rotated.budget, budget)
  const changed = await call(`PATCH keys/${key.id}`, { budget: { tokens: 0, every: 'month' } })
  t.match(changed, { status: 200, body: { id: key.id, budget: { tokens: 0, every: 'month' } } })
  t.match((await call(`PATCH keys/${key.id}`, { budget: null })).body, { budget: null })
  const wrong = [{}, { tokens: 5 }, { tokens: -1, every: 'day' }, { tokens: 5, every: 'hour' }, 5]
  for (const one of wrong) {
    const { status } = await call(`PATCH keys/${key.id}`, { budget: one })
    t.equal(status, 400, JSON.stringify(one))
  }
  t.match((await call(`PATCH keys/${key.id}`)).body, { error: { code: 'missing_parameter' } })
  t.match((await call('PATCH keys/key_0', { budget })).body, { error: { code: 'key_not_found' } })
})

t.test('keys are revoked and rotated', async (t) => {
  const { call } = await startAdmin(t)
  await call('POST accounts', { name: 'a' })
  const { body: first } = await call('POST accounts/a/keys', { name: 'n' })
  const rotated = await call(`POST keys/${first.id}/rotate`, { grace: 60 })
  t.match(rotated, { status: 201, body: { key: /^tg_live_/, name: 'n', status: 'active' } })
  const revoked = await call(`DELETE keys/${first.id}`)
  t.match(revoked, { status: 200, body: { id: first.id, status: 'revoked' } })
  t.equal(revoked.body.key, undefined)
  t.match(await call('DELETE keys/key_none'), { status: 404, body: refusal('key_not_found') })
  t.match(await call('POST keys/key_none/rotate'), { status: 404, body: refusal('key_not_found') })
})

t.test('pages of keys are those next to the cursor, both ways', async (t) => {
  const { call } = await startAdmin(t)
  await call('POST accounts', { name: 'a' })
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.push((await call('POST accounts/a/keys')).body.id)
  const page = async (query: string) => {
    const { body } = await call(`GET accounts/a/keys?limit=2&${query}`)
    return [...body.data.map(({ id }) => ids.indexOf(id)), body['has_more']]
  }
  t.strictSame(await page(`after=${ids[4]}`), [3, 2, true])
  t.strictSame(await page(`before=${ids[0]}`), [2, 1, true])
  t.strictSame(await page(`before=${ids[2]}`), [4, 3, false])
  t.strictSame(await page(`order=asc&before=${ids[4]}`), [2, 3, true])
  t.strictSame(await page(`order=asc&after=${ids[2]}`), [3, 4, false])
})
