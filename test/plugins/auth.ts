import t from 'tap'
import type { Test } from 'tap'
import { newKey, newRef } from '../../src/accounts/api-key.ts'
import { startBackend } from '../fixtures/backend.ts'
import { startGateway } from '../fixtures/gateway.ts'
import type { GatewaySetup, InProcess } from '../fixtures/gateway.ts'
import { refOf } from '../fixtures/money.ts'
import { rawClient } from '../fixtures/raw-http.ts'

const noBackend = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"
const start = (t: Test, setup: Partial<GatewaySetup> = {}) =>
  startGateway(t, { yaml: noBackend, ...setup })

const balance = '/api/billing/balance'
const hi = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }

interface Refusal {
  readonly status: number
  readonly code: string
  readonly challenge: string | null
  readonly retryAfter: string | null
}

async function seen(answer: Response): Promise<Refusal> {
  const { error } = (await answer.json()) as { error?: { code: string } }
  return {
    status: answer.status,
    code: error?.code ?? '',
    challenge: answer.headers.get('www-authenticate'),
    retryAfter: answer.headers.get('retry-after'),
  }
}

async function withHeader({ url }: InProcess, authorization?: string): Promise<Refusal> {
  return seen(await fetch(url + balance, authorization ? { headers: { authorization } } : {}))
}

const realm = 'Bearer realm="tollgate"'
const invalidToken = `${realm}, error="invalid_token"`

t.test('without a key the challenge has no error', async (t) => {
  const gateway = await start(t)
  t.match(await withHeader(gateway), { status: 401, code: 'missing_api_key', challenge: realm })
})

t.test('every wrong key is challenged with invalid_token', async (t) => {
  const gateway = await start(t)
  const { key } = await gateway.account(0)
  const flipped = key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
  const refused = { status: 401, code: 'invalid_api_key', challenge: invalidToken }
  for (const header of [
    'Bearer',
    'Basic dXNlcjpwYXNz',
    `Basic ${key}`,
    key,
    `Bearer ${key} more`,
    `Bearer ${flipped}`,
    `Bearer ${key}x`,
    `Bearer ${newKey(newRef())}`,
    `Bearer ${newKey(key.slice(8, 20))}`,
  ]) {
    t.same(await withHeader(gateway, header), { ...refused, retryAfter: null }, header)
  }
  t.equal((await withHeader(gateway, `bEARER  ${key}`)).status, 200)
})

t.test('a revoked key is refused by the next request, on every instance', async (t) => {
  const one = await start(t)
  const other = await start(t, { redis: one.redis })
  const { id, key } = await one.account(0)
  const { id: keyId, key: second } = await one.keyFor(id)
  t.equal((await other.call(balance, second)).status, 200)
  t.equal((await one.admin('DELETE', `keys/${keyId}`)).status, 200)
  for (const gateway of [one, other]) {
    const refusal = await seen(await gateway.call(balance, second))
    t.match(refusal, { status: 401, code: 'api_key_revoked', challenge: invalidToken })
    t.equal((await gateway.call(balance, key)).status, 200, 'the other key lives')
  }
})

t.test('a key in the query string is no key', async (t) => {
  const gateway = await start(t)
  const { key } = await gateway.account(0)
  for (const name of ['api_key', 'key', 'access_token', 'token', 'authorization']) {
    const answer = await seen(await fetch(`${gateway.url}${balance}?${name}=${key}`))
    t.match(answer, { status: 401, code: 'missing_api_key', challenge: realm }, name)
  }
})

t.test('a key may do what its scopes say, and any key may read /v1/models', async (t) => {
  const backend = await startBackend(t)
  const yaml = `models: { m: { targets: [{ url: '${backend.url}' }] } }`
  const gateway = await start(t, { yaml })
  const { id } = await gateway.account(10_000)
  const { key: chatKey } = await gateway.keyFor(id, { scopes: ['chat'] })
  const { key: billingKey } = await gateway.keyFor(id, { scopes: ['billing', 'files'] })
  const refused = { status: 403, code: 'insufficient_scope', challenge: null }
  t.match(await seen(await gateway.call('/v1/chat', billingKey, hi)), refused)
  t.match(await seen(await gateway.call(balance, chatKey)), refused)
  t.match(await seen(await gateway.call('/v1/api/billing/usage', chatKey)), refused)
  t.equal((await gateway.call('/v1/chat', chatKey, hi)).status, 200)
  t.equal((await gateway.call(balance, billingKey)).status, 200)
  for (const key of [chatKey, billingKey]) {
    t.equal((await gateway.call('/v1/models', key)).status, 200)
  }
  t.equal(backend.requests.length, 1, 'the refused one never got there')
})

t.test('the key of a large body is looked up once', async (t) => {
  const gateway = await start(t)
  const { key } = await gateway.account(0)
  const lookUps = async () => {
    const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
    return Number(/redis_command_seconds_count\{script="caller"\} (\d+)/.exec(text)?.[1] ?? 0)
  }
  const before = await lookUps()
  const body = { instructions: 'x'.repeat(20_000) }
  t.equal((await gateway.call('/api/chat/sessions', key, body)).status, 201)
  t.equal((await lookUps()) - before, 1)
})

t.test('after too many guesses only guesses are told 429', async (t) => {
  const yaml = `${noBackend}\nplugins: { auth: { failures_per_minute_per_ip: 3 } }`
  const gateway = await start(t, { yaml })
  const { key } = await gateway.account(0)
  for (let i = 0; i < 10; i++) t.equal((await withHeader(gateway)).code, 'missing_api_key')
  const codes: string[] = []
  for (let i = 0; i < 5; i++) codes.push((await withHeader(gateway, 'Bearer guess')).code)
  t.same(codes.slice(0, 3), Array(3).fill('invalid_api_key'), 'no key at all is no guess')
  const refusal = await withHeader(gateway, `Bearer ${newKey(newRef())}`)
  t.match(refusal, { status: 429, code: 'rate_limit_exceeded', challenge: null })
  const seconds = Number(refusal.retryAfter)
  t.ok(Number.isInteger(seconds) && seconds > 0 && seconds <= 60, `Retry-After: ${seconds}`)
  t.equal((await withHeader(gateway)).code, 'missing_api_key')
  t.equal((await withHeader(gateway, `Bearer ${key}`)).status, 200, 'from the same address')
})

t.test('a text that cannot be a key is refused without Redis', async (t) => {
  const gateway = await start(t)
  const { key } = await gateway.account(0)
  await gateway.redis.kill()
  const flipped = key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
  t.equal((await withHeader(gateway, `Bearer ${flipped}`)).code, 'invalid_api_key')
  t.match(await withHeader(gateway, `Bearer ${key}`), { status: 503, code: 'ledger_unavailable' })
})

const refusalsYaml = (perMinute: number) =>
  `${noBackend}\nplugins: { auth: { refusals_per_minute: ${perMinute} } }`

t.test('a key that is refused too often is answered 429 before a body is read', async (t) => {
  const gateway = await start(t, { yaml: refusalsYaml(3) })
  const { id, key } = await gateway.account(0)
  for (let i = 0; i < 3; i++) t.equal((await gateway.call('/v1/chat', key, hi)).status, 402)
  const client = await rawClient(t, Number(new URL(gateway.url).port))
  const { status, headers, json } = await client.ask(
    `POST /v1/chat HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`,
    'Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n',
  )
  t.equal(status, 429)
  t.equal(json.error?.code, 'rate_limit_exceeded')
  t.ok(Number(headers['retry-after']) <= 20)
  const other = await gateway.keyFor(id)
  t.equal((await gateway.call('/v1/chat', other.key, hi)).status, 402, 'another key of the account')
  t.equal((await gateway.call('/api/billing/balance', other.key)).status, 200)
})

t.test('many keys of one account are refused no more often than ten of them', async (t) => {
  const gateway = await start(t, { yaml: refusalsYaml(3) })
  const { id } = await gateway.account(0)
  const revoked = await gateway.keyFor(id)
  await gateway.admin('DELETE', `keys/${revoked.id}`)
  for (let i = 0; i < 3; i++) await gateway.call(balance, revoked.key)
  const refuse = async ({ key }: { key: string }) =>
    (await gateway.call('/v1/chat', key, hi)).status
  for (let i = 0; i < 10; i++) {
    const one = await gateway.keyFor(id)
    t.same([await refuse(one), await refuse(one), await refuse(one)], [402, 402, 402])
  }
  // One refusal in two seconds is forgotten, so a slow machine needs more keys than one.
  let status = 402
  for (let i = 0; i < 20 && status === 402; i++) status = await refuse(await gateway.keyFor(id))
  t.equal(status, 429)
  t.equal((await gateway.call(balance, (await gateway.account(0)).key)).status, 200)
})

t.test('a success counts as no refusal, and an invented key counts for nobody', async (t) => {
  const gateway = await start(t, { yaml: refusalsYaml(2) })
  const account = await gateway.account(1000)
  for (let i = 0; i < 5; i++) {
    t.equal((await gateway.call('/api/billing/balance', account.key)).status, 200)
    await gateway.call('/api/billing/balance', newKey(refOf(account)))
  }
  t.equal((await gateway.call('/api/billing/balance', account.key)).status, 200)
})

t.test('revoked keys and large invalid bodies count, too', async (t) => {
  const gateway = await start(t, { yaml: refusalsYaml(2) })
  const { id, key } = await gateway.account(1000)
  const statuses = async (one: string, body?: string) => {
    const path = body === undefined ? '/api/billing/balance' : '/v1/chat'
    const all: number[] = []
    for (let i = 0; i < 3; i++) all.push((await gateway.call(path, one, body)).status)
    return all
  }
  t.strictSame(await statuses(key, '{'), [400, 400, 400], 'small ones do not')
  t.strictSame(await statuses(key, `{${' '.repeat(5000)}`), [400, 400, 429])
  const other = await gateway.keyFor(id)
  await gateway.admin('DELETE', `keys/${other.id}`)
  t.strictSame(await statuses(other.key), [401, 401, 429])
})

t.test('large bodies count, too, when what they ask for is missing', async (t) => {
  const gateway = await start(t, { yaml: refusalsYaml(2) })
  const { id, key } = await gateway.account(0)
  const large = 'a'.repeat(5000)
  const session = `/api/chat/sessions/sess_${'0'.repeat(32)}/messages`
  const model = (content: string) => ({ model: 'none', messages: [{ role: 'user', content }] })
  for (const [path, body, small] of [
    [session, { content: large }, { content: 'a' }],
    ['/v1/chat', model(large), model('a')],
  ] as const) {
    const { key: one } = await gateway.keyFor(id)
    for (let i = 0; i < 3; i++) t.equal((await gateway.call(path, one, small)).status, 404)
    t.equal((await gateway.call(path, one, body)).status, 404)
    t.equal((await gateway.call(path, one, body)).status, 404)
    t.equal((await gateway.call(path, one, body)).status, 429, path)
  }
  t.equal((await gateway.call('/api/billing/balance', key)).status, 200)
})

t.test('a refusal of megabytes counts as much as several small ones', async (t) => {
  const gateway = await start(t, { yaml: refusalsYaml(3) })
  const { id, key } = await gateway.account(0)
  const large = `{${' '.repeat(2.1 * 2 ** 20)}`
  t.equal((await gateway.call('/v1/chat', key, large)).status, 400)
  t.equal((await gateway.call('/v1/chat', key, hi)).status, 429)
  const other = await gateway.keyFor(id)
  for (let i = 0; i < 3; i++) t.equal((await gateway.call('/v1/chat', other.key, hi)).status, 402)
})

t.test('so does a repeated send that is refused after its body was forgotten', async (t) => {
  const { url } = await startBackend(t)
  const yaml = [
    `models: { m: { targets: [{ url: '${url}' }], price: { input: 0 }, context_window: 9000000 } }`,
    'plans: { default: { requests_per_minute: 2, tokens_per_minute: 9000000 } }',
    'limits: { json_api: 4MiB }',
    'plugins: { auth: { refusals_per_minute: 3 } }',
  ].join('\n')
  const gateway = await start(t, { yaml })
  const { key } = await gateway.account(1_000_000)
  const made = await gateway.call('/api/chat/sessions', key, {})
  const { id } = (await made.json()) as { readonly id: string }
  const send = () =>
    fetch(`${gateway.url}/api/chat/sessions/${id}/messages`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'idempotency-key': 'k',
      },
      body: JSON.stringify({ content: 'a'.repeat(2.1 * 2 ** 20), stream: false }),
    })
  const statuses = [(await send()).status, (await send()).status, (await send()).status]
  t.strictSame(statuses, [200, 200, 429], 'made, repeated, more than two requests without a hold')
  t.equal((await gateway.call('/v1/chat', key, hi)).status, 429)
})
