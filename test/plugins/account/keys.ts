import t from 'tap'
import { startPortal } from '../../fixtures/account-page.ts'
import { ask } from '../../fixtures/money.ts'

t.test('a customer makes a key, uses it, and revokes it', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(10_000)
  const { call } = await gateway.enter(id)
  const made = await call('POST keys', { name: 'mine', models: ['nick'], scopes: ['chat'] })
  t.match(made, {
    status: 201,
    body: { object: 'api_key', account_id: id, name: 'mine', models: ['m'], key: /^tg_live_/ },
  })
  t.equal(made.headers.get('cache-control'), 'no-store')
  const { key, id: keyId } = made.body
  t.equal((await gateway.call('/v1/chat', key, { ...ask(3, false), model: 'm' })).status, 200)
  const listed = (await call('GET keys?limit=1')).body
  t.match(listed, { object: 'list', has_more: true, data: [{ id: keyId, key: undefined }] })
  t.match((await call(`PATCH keys/${keyId}`, { name: 'renamed' })).body, {
    id: keyId,
    name: 'renamed',
  })
  const { body: rotated } = await call(`POST keys/${keyId}/rotate`, { grace: 0 })
  t.match(rotated, { name: 'renamed', scopes: ['chat'], models: ['m'] })
  t.equal((await gateway.call('/v1/models', key)).status, 401)
  t.match((await call(`DELETE keys/${rotated.id}`)).body, { status: 'revoked' })
  t.equal((await gateway.call('/v1/models', rotated.key)).status, 401)
  t.match((await call('GET transactions')).body.data[0], { type: 'charge', model: 'm' })
})

t.test('keys of another account are not found', async (t) => {
  const gateway = await startPortal(t)
  const [mine, other] = [await gateway.account(0), await gateway.account(0)]
  const { id: keyId } = await gateway.keyFor(other.id)
  const { call } = await gateway.enter(mine.id)
  for (const [line, body] of [
    [`PATCH keys/${keyId}`, { name: 'x' }],
    [`DELETE keys/${keyId}`],
    [`POST keys/${keyId}/rotate`, {}],
    ['DELETE keys/key_none'],
  ] as const)
    t.match(
      await call(line, body),
      { status: 404, body: { error: { code: 'key_not_found' } } },
      line,
    )
  const answer = await gateway.call('/v1/models', other.key)
  t.equal(answer.status, 200)
})

t.test('a key may not name more than the account has', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0, { plan: 'small' })
  const { call } = await gateway.enter(id)
  for (const [body, param] of [
    [{ models: ['other'] }, 'models'],
    [{ models: ['m', 'nobody'] }, 'models'],
    [{ limits: { requests_per_minute: 6 } }, 'limits.requests_per_minute'],
    [{ limits: { concurrency: 21 } }, 'limits.concurrency'],
    [{ limits: { tokens_per_minute: 400_001 } }, 'limits.tokens_per_minute'],
    [{ expires_at: 1 }, 'expires_at'],
    [{ scopes: ['admin'] }, 'scopes.0'],
  ] as const)
    t.match(await call('POST keys', body), { status: 400, body: { error: { param } } }, param)
  t.equal(
    (await call('POST keys', { models: ['m'], limits: { requests_per_minute: 5 } })).status,
    201,
  )
  t.equal((await call('POST keys', { models: ['*'] })).status, 201)
})

t.test('names with markup come back as they are, and control characters are refused', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(0)
  const { call } = await gateway.enter(id)
  const name = '<img src=x onerror=alert(1)>=cmd|\u2028'
  t.match(await call('POST keys', { name }), { status: 201, body: { name } })
  t.equal((await call('POST keys', { name: 'a\nb' })).status, 400)
})

t.test('an account has so many keys and no more, also at once', async (t) => {
  const gateway = await startPortal(t, { account: '{ max_keys: 5 }' })
  const { id } = await gateway.account(0)
  const { call } = await gateway.enter(id)
  const made = await Promise.all(Array.from({ length: 30 }, () => call('POST keys', {})))
  t.equal(made.filter(({ status }) => status === 201).length, 4, 'it had one')
  t.match(
    made.find(({ status }) => status !== 201),
    { status: 403, body: { error: { code: 'key_limit_reached' } } },
  )
  t.equal((await call('GET keys?limit=100')).body.data.length, 5)
  const first = made.find(({ status }) => status === 201)?.body.id
  t.match(await call(`POST keys/${first}/rotate`, {}), { status: 403 }, 'a rotation makes one, too')
  await call(`DELETE keys/${first}`)
  t.equal((await call('POST keys', {})).status, 403, 'a revoked key counts for a day')
})

t.test('one Idempotency-Key makes one key, for each account', async (t) => {
  const gateway = await startPortal(t)
  const browsers = [
    await gateway.enter((await gateway.account(0)).id),
    await gateway.enter((await gateway.account(0)).id),
  ]
  const headers = { 'idempotency-key': 'same' }
  const ids = []
  for (const { call } of browsers) {
    const [first, again] = [
      await call('POST keys', {}, headers),
      await call('POST keys', {}, headers),
    ]
    t.strictSame(first.body, again.body)
    t.equal(again.headers.get('idempotent-replayed'), 'true')
    ids.push(first.body.id)
    t.match(await call('POST keys', { name: 'x' }, headers), { status: 422 })
  }
  t.not(ids[0], ids[1])
})

t.test('a key of the playground chats and is not listed', async (t) => {
  const gateway = await startPortal(t)
  const { id } = await gateway.account(10_000)
  const { call } = await gateway.enter(id)
  const before = (await call('GET keys')).body.data
  const { status, body } = await call('POST playground-key')
  t.equal(status, 201)
  t.match(body, { object: 'account.playground_key', scopes: ['chat', 'sessions', 'files'] })
  t.equal((await gateway.call('/v1/chat', body.key, { ...ask(3, false), model: 'm' })).status, 200)
  t.equal((await gateway.call('/api/billing/balance', body.key)).status, 403)
  t.strictSame((await call('GET keys')).body.data, before)
  t.match((await call('GET me')).body, { playground_key_id: body.id })
  t.match((await call('GET usage?group_by=key')).body.data, [{ key_id: body.id }])
  await call('POST logout')
  t.equal((await gateway.call('/v1/models', body.key)).status, 401)
})

t.test('keys of the playground are rare', async (t) => {
  const gateway = await startPortal(t)
  const [mine, other] = [await gateway.account(0), await gateway.account(0)]
  const [one, two] = [await gateway.enter(mine.id), await gateway.enter(mine.id)]
  const made = await Promise.all(
    Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? one : two).call('POST playground-key')),
  )
  const given = made.filter(({ status }) => status === 201).length
  t.ok(given >= 10 && given < 15, `${given}, of which one comes back each six seconds`)
  for (const { status, headers, body } of made.filter((answer) => answer.status !== 201)) {
    t.match({ status, body }, { status: 429, body: { error: { code: 'rate_limit_exceeded' } } })
    t.ok(Number(headers.get('retry-after')) >= 1)
  }
  t.equal((await one.call('GET me')).status, 200, 'the page goes on')
  const { call } = await gateway.enter(other.id)
  t.equal((await call('POST playground-key')).status, 201)
})
