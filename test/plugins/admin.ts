import t from 'tap'
import type { Test } from 'tap'
import { request } from 'node:http'
import { keys } from '../../src/redis.ts'
import { adminToken, startAdmin } from '../fixtures/admin-listener.ts'

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Body
}

interface Body {
  readonly id: string
  readonly key: string
  readonly status: string
  readonly balance_after: number
  readonly data: readonly Body[]
  readonly [name: string]: unknown
}

async function start(t: Test) {
  const gateway = await startAdmin(t)
  const call = async (
    line: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer> => {
    const [method = '', path = ''] = line.split(' ')
    const answer = await fetch(`${gateway.url}/admin/${path}`, {
      method,
      headers: {
        authorization: `Bearer ${adminToken}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body),
    })
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Body }
  }
  return { ...gateway, call }
}

const refusal = (code: string, param: string | null = null) => ({ error: { code, param } })

t.test('without the right token nothing is told', async (t) => {
  const { call } = await start(t)
  for (const authorization of [
    '',
    'Bearer',
    'Bearer wrong',
    `Basic ${adminToken}`,
    `Bearer ${adminToken} x`,
  ]) {
    const { status, body } = await call('GET accounts', undefined, { authorization })
    t.equal(status, 401, authorization)
    t.match(body, refusal('invalid_admin_token'))
  }
  t.equal(
    (await call('GET accounts', undefined, { authorization: `bearer ${adminToken}` })).status,
    200,
  )
})

t.test('a web page is refused by its Origin or its Host, right token or not', async (t) => {
  const { call, url } = await start(t)
  const page = await call('GET accounts', undefined, { origin: 'http://127.0.0.1:9090' })
  t.match(page, { status: 403, body: refusal('origin_not_allowed') })
  // fetch sets Host itself.
  const statusFor = (host: string) =>
    new Promise<number>((resolve, reject) => {
      const headers = { host, authorization: `Bearer ${adminToken}` }
      const sent = request(`${url}/admin/accounts`, { headers }, (answer) => {
        answer.resume()
        resolve(answer.statusCode ?? 0)
      })
      sent.on('error', reject).end()
    })
  for (const host of [
    'localhost',
    'LOCALHOST:1',
    '127.0.0.1:9090',
    '127.1.2.3',
    '[::1]:9090',
    'gateway.internal',
  ]) {
    t.equal(await statusFor(host), 200, host)
  }
  for (const host of [
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '10.0.0.1',
    'evil.example:9090',
  ]) {
    t.equal(await statusFor(host), 403, host)
  }
})

t.test('an account is made, found by id and name, changed and listed', async (t) => {
  const { call } = await start(t)
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
  const { call } = await start(t)
  for (const name of ['a', 'b', 'c']) await call('POST accounts', { name })
  const names = ({ body }: Answer) => body.data.map(({ name }) => name)
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

t.test('a faulty body is refused with the field at fault', async (t) => {
  const { call } = await start(t)
  await call('POST accounts', { name: 'a' })
  await call('POST accounts', { name: 'twin' })
  await call('POST accounts', { name: 'twin' })
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
    ['PATCH accounts/twin', { plan: 'big' }, 'invalid_parameter', 'id'],
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

t.test('money: topped up, adjusted, never below zero, in the journal, audited', async (t) => {
  const { call } = await start(t)
  const { body: account } = await call('POST accounts', { name: 'a' })
  const topup = await call('POST accounts/a/topup', { amount: 1000, note: 'invoice 7' })
  t.equal(topup.status, 200)
  const transaction = {
    object: 'billing.transaction',
    type: 'topup',
    amount: 1000,
    note: 'invoice 7',
  }
  t.match(topup.body, { ...transaction, id: /^txn_/, balance_after: 1000 })
  t.match((await call('POST accounts/a/adjust', { amount: -400, note: 'oops' })).body, {
    balance_after: 600,
  })
  const tooMuch = await call('POST accounts/a/adjust', { amount: -601, note: 'oops' })
  t.match(tooMuch, { status: 409, body: refusal('insufficient_balance') })
  t.match((await call('GET accounts/a/balance')).body, {
    object: 'billing.balance',
    available: 600,
  })
  t.match((await call('GET accounts/a/transactions')).body.data, [
    { amount: -400 },
    { amount: 1000 },
  ])
  t.match((await call('GET accounts/a/usage')).body, { object: 'list', data: [] })
  t.match((await call('GET audit')).body, { object: 'audit', accounts: 1, differences: [] })
  t.match((await call(`GET audit?account=${account.id}`)).body, { accounts: 1, entries: 2 })
  t.match(await call('GET audit?account=nobody'), { status: 404 })
})

t.test('an audit tells what does not add up', async (t) => {
  const { call, accounts, link } = await start(t)
  const { body } = await call('POST accounts', { name: 'a' })
  const { ref } = await accounts.getAccount('a')
  await link.client.hset(keys.account(ref), 'granted', '5')
  const { body: report } = await call('GET audit')
  t.match(report.differences, [{ account_id: body.id, what: 'granted', expected: 0, found: 5 }])
})

t.test('a top-up with one Idempotency-Key is made once, with another body refused', async (t) => {
  const { call } = await start(t)
  await call('POST accounts', { name: 'a' })
  const headers = { 'idempotency-key': 'k-1' }
  const first = await call('POST accounts/a/topup', { amount: 5 }, headers)
  t.strictSame((await call('POST accounts/a/topup', { amount: 5 }, headers)).body, first.body)
  const reused = { status: 422, body: refusal('idempotency_key_reused') }
  t.match(await call('POST accounts/a/topup', { amount: 6 }, headers), reused)
  t.match((await call('GET accounts/a/balance')).body, { available: 5 })
  await call('POST accounts/a/topup', { amount: 5 })
  t.match((await call('GET accounts/a/balance')).body, { available: 10 })
  const malformed = await call('POST accounts/a/topup', { amount: 5 }, { 'idempotency-key': 'a b' })
  t.match(malformed, { status: 400, body: refusal('invalid_parameter', 'Idempotency-Key') })
})

t.test('a key is shown once, narrowed as asked, listed without its text', async (t) => {
  const { call } = await start(t)
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

t.test('keys are revoked and rotated', async (t) => {
  const { call } = await start(t)
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

t.test(
  'creating with one Idempotency-Key creates once and answers the same key, which is nowhere readable',
  async (t) => {
    const { call, link } = await start(t)
    const headers = { 'idempotency-key': 'one' }
    const first = await call('POST accounts', { name: 'a' }, headers)
    const again = await call('POST accounts', { name: 'a' }, headers)
    t.equal(again.body.id, first.body.id)
    t.equal(first.headers.get('idempotent-replayed'), null)
    t.equal(again.headers.get('idempotent-replayed'), 'true')
    t.equal((await call('GET accounts')).body.data.length, 1)
    t.match(await call('POST accounts', { name: 'b' }, headers), {
      body: refusal('idempotency_key_reused'),
    })
    const made = await Promise.all([1, 2, 3].map(() => call('POST accounts/a/keys', {}, headers)))
    t.equal(new Set(made.map(({ body }) => body.key)).size, 1)
    t.equal((await call('GET accounts/a/keys')).body.data.length, 1)
    const id = made[0]?.body.id ?? ''
    const rotations = [
      await call(`POST keys/${id}/rotate`, {}, headers),
      await call(`POST keys/${id}/rotate`, {}, headers),
    ]
    t.strictSame(rotations[0]?.body, rotations[1]?.body)
    const secret = made[0]?.body.key.slice(-36) ?? ''
    for (const name of await link.client.keys('admin-claim:*')) {
      const value = Buffer.from((await link.client.get(name)) ?? '', 'base64url').toString('latin1')
      t.notOk(value.includes(secret) || name.includes('one'), 'sealed')
    }
  },
)

t.test('a refused creation does not use its Idempotency-Key up', async (t) => {
  const { call, accounts } = await start(t)
  const headers = { 'idempotency-key': 'again' }
  await call('POST accounts', { name: 'a' })
  const { body: key } = await call('POST accounts/a/keys')
  await accounts.revokeKey(key.id)
  const refused = await call(`POST keys/${key.id}/rotate`, { grace: 5 }, headers)
  t.match(refused, { status: 400, body: refusal('invalid_parameter', 'id') })
  const other = await call(`POST keys/${key.id}/rotate`, { grace: 6 }, headers)
  t.match(other.body, refusal('invalid_parameter', 'id'), 'and not idempotency_key_reused')
})

t.test('targets and configuration are shown without their secrets', async (t) => {
  const { call } = await start(t)
  const { body: targets } = await call('GET targets')
  t.match(targets.data, [
    {
      id: 'm',
      aliases: ['nick'],
      price: { input: 0.07, output: 4 },
      targets: [{ url: 'https://backend.example/v1', model: 'm' }],
    },
  ])
  const { body: config } = await call('GET config')
  t.match(config, { object: 'config', config: { models: { m: { price: { output: 4 } } } } })
  t.notMatch(JSON.stringify([targets, config]), /secret-|test-admin-token/)
})

t.test('with Redis away the answer is 503 ledger_unavailable', async (t) => {
  const { call, redis } = await start(t)
  await redis.stop()
  const refused = { status: 503, body: refusal('ledger_unavailable') }
  t.match(await call('GET accounts'), refused)
  t.match(await call('POST accounts', { name: 'a' }), refused)
  t.match(await call('GET audit'), refused)
})
