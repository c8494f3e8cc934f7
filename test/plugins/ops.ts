import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { newId } from '../../src/ids.ts'
import { keys } from '../../src/redis/keys.ts'
import { request } from 'node:http'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { sse } from '../fixtures/backend-scripts.ts'
import { messageIdOf, startChat } from '../fixtures/session-chat.ts'
import { Gate } from '../fixtures/gate.ts'
import { startGateway } from '../fixtures/gateway.ts'
import type { InProcess } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { metricOf } from '../fixtures/metric.ts'
import { ask, outputOnly, refOf } from '../fixtures/money.ts'
import { until } from '../fixtures/until.ts'

const yamlFor = (url: string) =>
  `models: { m: { targets: [{ url: '${url}' }] } }\nlog: { level: info }`
const hi = { model: 'm', messages: [{ role: 'user', content: 'Hi there' }] }

const scrape = async ({ adminUrl }: InProcess) => (await fetch(`${adminUrl}/metrics`)).text()

/** The value of the only sample that begins like this. */
function sample(text: string, start: string): number | undefined {
  const line = text.split('\n').find((one) => one.startsWith(start))
  return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ') + 1))
}

interface Line {
  readonly msg: string
  readonly request_id?: string
  readonly [name: string]: unknown
}

const linesOf = (gateway: InProcess) =>
  gateway.log.map((line) => JSON.parse(line) as Line).filter(({ msg }) => msg === 'request')

t.test('a stream is counted: request, tokens, charge, settlement, times', async (t) => {
  const backend = await startBackend(t)
  const gateway = await startGateway(t, { yaml: yamlFor(backend.url) })
  const { key } = await gateway.account(10_000)
  await (await gateway.call('/v1/chat', key, { ...hi, stream: true })).text()
  const text = await scrape(gateway)
  const { prompt, completion } = backend.served
  const samples: readonly (readonly [string, number])[] = [
    ['http_requests_total{route="/v1/chat",method="POST",status="200"}', 1],
    ['http_request_duration_seconds_count{route="/v1/chat"}', 1],
    ['overhead_seconds_count', 1],
    ['upstream_requests_total{model="m",target="1",outcome="complete"}', 1],
    ['upstream_first_token_seconds_count{model="m"}', 1],
    ['upstream_inter_token_seconds_count{model="m"}', 1],
    ['upstream_duration_seconds_count{model="m"}', 1],
    ['tokens_total{model="m",kind="input"}', prompt],
    ['tokens_total{model="m",kind="cached_input"}', 0],
    ['tokens_total{model="m",kind="output"}', completion],
    ['charged_tokens_total{model="m"}', prompt + completion],
    ['waived_tokens_total{model="m"}', 0],
    ['settlements_total{basis="reported"}', 1],
    ['streams_open{kind="chat"}', 0],
  ]
  for (const [name, value] of samples) t.equal(sample(text, `tollgate_${name}`), value, name)
  t.match(text, /^tollgate_build_info\{version="test"\} 1$/m)
  t.match(text, /^nodejs_eventloop_lag_seconds /m)
  const { headers } = await fetch(`${gateway.adminUrl}/metrics`)
  t.match(headers.get('content-type'), /^text\/plain; version=0\.0\.4/)
  // As Prometheus asks.
  const accept =
    'application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'
  const open = await fetch(`${gateway.adminUrl}/metrics`, { headers: { accept } })
  t.match(open.headers.get('content-type'), /^application\/openmetrics-text; version=1\.0\.0/)
  const lines = (await open.text()).trimEnd().split('\n')
  t.equal(lines.at(-1), '# EOF')
  t.ok(lines.some((line) => / # \{request_id="req_\w+"\} /.test(line)))
  t.notOk(
    lines.some((line) => line.includes('route="/metrics"') && line.includes('request_id')),
    'a probe has no line in the log',
  )
})

t.test('what a model costs the operator is counted beside what is charged', async (t) => {
  const backend = await startBackend(t, chat({ cachedTokens: 1 }))
  const targets = `[{ url: '${backend.url}' }]`
  const cost = '{ input: 0.5, output: 0.25, cached_input: 0.125 }'
  const yaml = `models: { m: { targets: ${targets}, cost: ${cost} }, free: { targets: ${targets} } }`
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(10_000)
  for (const model of ['m', 'free']) {
    await (await gateway.call('/v1/chat', key, { ...hi, model })).text()
  }
  const text = await scrape(gateway)
  const { prompt, completion } = backend.served
  const paid = ((prompt / 2 - 1) * 4 + 1 + (completion / 2) * 2) / 8
  t.equal(sample(text, 'tollgate_cost_tokens_total{model="m"}'), paid)
  t.notOk(text.includes('tollgate_cost_tokens_total{model="free"}'), 'nobody knows what it costs')
})

t.test('what shadow mode waives is counted apart from what is charged', async (t) => {
  const backend = await startBackend(t, chat({ chunks: 30 }))
  const yaml = `${outputOnly(backend.url)}plugins: { metering: { enforce: false } }`
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(50)
  const charged = (of: InProcess) => metricOf(of, 'tollgate_charged_tokens_total{model="m"}')
  const waived = (of: InProcess) => metricOf(of, 'tollgate_waived_tokens_total{model="m"}')
  for (const sum of [30, 60, 90]) {
    await (await gateway.call('/v1/chat', key, ask(100, true))).text()
    await until(async () => (await charged(gateway)) + (await waived(gateway)) === sum)
    t.equal(await charged(gateway), Math.min(50, sum))
  }
  // A gateway that enforces: what an account cannot pay is owed, so it is charged.
  const enforcing = await startGateway(t, { yaml: outputOnly(backend.url) })
  const { key: poor } = await enforcing.account(20)
  backend.on(chat({ chunks: 30, ignoreMaxTokens: true }))
  await (await enforcing.call('/v1/chat', poor, ask(20, true))).text()
  t.same([await charged(enforcing), await waived(enforcing)], [30, 0])
})

t.test('while Redis is away, nothing counts as charged that shadow mode may waive', async (t) => {
  const gate = new Gate()
  gate.next(2)
  const backend = await startBackend(t, chat({ chunks: 30, gate }))
  const yaml = `${outputOnly(backend.url)}plugins: { metering: { enforce: false } }`
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(50)
  const answer = await gateway.call('/v1/chat', key, ask(100, true))
  await gateway.redis.kill()
  await until(async () => (await metricOf(gateway, 'tollgate_redis_up')) === 0)
  gate.open()
  await answer.text()
  await until(async () => (await metricOf(gateway, 'tollgate_waived_tokens_total')) === 30)
  t.equal(await metricOf(gateway, 'tollgate_charged_tokens_total'), 0)
})

t.test(
  'what shadow mode can charge nobody for, because the account has gone, is waived',
  async (t) => {
    const gate = new Gate()
    gate.next(2)
    const backend = await startBackend(t, chat({ chunks: 30, gate }))
    const yaml = `${outputOnly(backend.url)}plugins: { metering: { enforce: false } }`
    const gateway = await startGateway(t, { yaml })
    const account = await gateway.account(50)
    const answer = await gateway.call('/v1/chat', account.key, ask(100, true))
    const { client } = await connectLink(t, gateway.redis.socket)
    await client.del(keys.account(refOf(account)))
    gate.open()
    await answer.text()
    await until(async () => (await metricOf(gateway, 'tollgate_waived_tokens_total')) === 30)
    t.equal(await metricOf(gateway, 'tollgate_charged_tokens_total'), 0)
  },
)

t.test('cached input is counted apart from input', async (t) => {
  const backend = await startBackend(t, chat({ cachedTokens: 1 }))
  const gateway = await startGateway(t, { yaml: yamlFor(backend.url) })
  const { key } = await gateway.account(10_000)
  await (await gateway.call('/v1/chat', key, hi)).text()
  const text = await scrape(gateway)
  const tokens = (kind: string) => sample(text, `tollgate_tokens_total{model="m",kind="${kind}"}`)
  t.equal(tokens('cached_input'), 1)
  t.equal(tokens('input'), backend.served.prompt - 1)
})

t.test('a stop is no failure of the backend, and its error is one', async (t) => {
  const word = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
  const chat = await startChat(t, { script: sse([word], { end: false }) })
  const stopped = async (name: string) => {
    const live = await chat.send(chat.sessionId)
    const path = `/${chat.sessionId}/messages/${messageIdOf(live)}`
    const method = name === 'stop' ? 'POST' : 'DELETE'
    await chat.at(name === 'stop' ? `${path}/cancel` : `/${chat.sessionId}`, { method })
    await live.end()
  }
  await stopped('stop')
  chat.backend.once(sse([word], { end: 'cut' }))
  await (await chat.send(chat.sessionId)).end()
  await stopped('session deleted')
  const counted = (text: string, outcome: string) =>
    sample(text, `tollgate_upstream_requests_total{model="m",target="1",outcome="${outcome}"}`)
  const text = await scrape(chat.gateway)
  t.equal(counted(text, 'aborted'), 2)
  t.equal(counted(text, 'failed'), 1)
  t.equal(sample(text, 'tollgate_upstream_aborted_total'), 2)
})

t.test('whatever strangers request, there are no new labels', async (t) => {
  const backend = await startBackend(t)
  const gateway = await startGateway(t, { yaml: yamlFor(backend.url) })
  const { key } = await gateway.account(10_000)
  const round = async (i: number) => {
    await gateway.call(`/v1/stranger-${i}`, key)
    await gateway.call('/v1/chat', key, { ...hi, model: `stranger-${i}` })
    await gateway.call(`/v1/models/stranger-${i}`, key)
    await gateway.call('/v1/models', `stranger-${i}`)
    await fetch(`${gateway.adminUrl}/admin/accounts/stranger-${i}`)
    await send(gateway.url, ['PROPFIND', 'MKCOL', 'REPORT'][i % 3] ?? '')
  }
  await round(0)
  await scrape(gateway)
  const series = (text: string) => text.match(/^tollgate_.*[ ]/gm)
  const before = series(await scrape(gateway))
  for (let i = 1; i < 6; i++) await round(i)
  const after = await scrape(gateway)
  t.same(series(after), before)
  t.notMatch(after, /stranger|PROPFIND|MKCOL|REPORT/)
  t.notMatch(after, new RegExp(key.slice(8, 20)))
  t.equal(sample(after, 'tollgate_rejections_total{code="model_not_found"}'), 12)
  t.equal(sample(after, 'tollgate_http_requests_total{route="none",method="other"'), 6)
})

function send(url: string, method: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const req = request(`${url}/`, { method }, (res) => res.resume().on('end', resolve))
    req.on('error', reject).end()
  })
}

t.test('one log line an exchange, refused or not, found by its request id', async (t) => {
  const backend = await startBackend(t)
  const gateway = await startGateway(t, { yaml: yamlFor(backend.url) })
  const { id, key } = await gateway.account(10_000)
  const before = linesOf(gateway).length
  const answers = [
    await gateway.call('/v1/chat', key, hi),
    await gateway.call('/v1/chat', key, { ...hi, stream: true }),
    await gateway.call('/v1/chat', key, '{'),
    await gateway.call('/v1/models', 'wrong'),
    await gateway.call('/v1/none', key),
  ]
  for (const answer of answers) await answer.text()
  const lines = linesOf(gateway).slice(before)
  t.same(
    lines.map((line) => line.request_id),
    answers.map(({ headers }) => headers.get('x-request-id')),
  )
  t.same(
    lines.map(({ status, code }) => [status, code]),
    [
      [200, undefined],
      [200, undefined],
      [400, 'invalid_json'],
      [401, 'invalid_api_key'],
      [404, 'route_not_found'],
    ],
  )
  t.match(lines[1], {
    method: 'POST',
    route: '/v1/chat',
    account: id,
    model: 'm',
    target: '1',
    stream: true,
    basis: 'reported',
    cost: Number,
    ms: Number,
    first_token_ms: Number,
    finish_reason: 'stop',
    prompt_tokens: Number,
    completion_tokens: Number,
  })
})

t.test("a client's request id is echoed and logged, unless it could break a header", async (t) => {
  const gateway = await startGateway(t, { yaml: yamlFor('http://127.0.0.1:1/v1') })
  const ask = (id: string) =>
    fetch(`${gateway.url}/v1/models`, { headers: { 'x-client-request-id': id } })
  t.equal((await ask('mine-1')).headers.get('x-client-request-id'), 'mine-1')
  t.equal(linesOf(gateway).at(-1)?.['client_request_id'], 'mine-1')
  for (const bad of ['x'.repeat(256), 'a b', '\u00e9']) {
    t.equal((await ask(bad)).headers.get('x-client-request-id'), null)
    t.equal(linesOf(gateway).at(-1)?.['client_request_id'], undefined)
  }
})

t.test('the log line of a refusal names the caller, if the key is known', async (t) => {
  const backend = await startBackend(t)
  const gateway = await startGateway(t, { yaml: yamlFor(backend.url) })
  const { id, key } = await gateway.account(1)
  const { key: narrow } = await gateway.keyFor(id, { scopes: ['billing'] })
  const refusals = [
    [() => gateway.call('/v1/chat', key, hi), 'insufficient_balance'],
    [() => gateway.call('/v1/chat', narrow, hi), 'insufficient_scope'],
    [() => gateway.call('/v1/chat', key, { ...hi, model: 'none' }), 'model_not_found'],
    [() => gateway.call('/v1/chat', key, { ...hi, n: 900, max_tokens: 4000 }), 'invalid_parameter'],
  ] as const
  for (const [send, code] of refusals) {
    const requestId = (await send()).headers.get('x-request-id')
    const line = linesOf(gateway).find((one) => one.request_id === requestId)
    t.match(line, { code, account: id, key: /^key_/ })
  }
  await gateway.admin('PATCH', `accounts/${id}`, { status: 'suspended' })
  const requestId = (await gateway.call('/v1/models', key)).headers.get('x-request-id')
  const line = linesOf(gateway).find((one) => one.request_id === requestId)
  t.match(line, { code: 'account_suspended', account: id, key: /^key_/ })
})

t.test("an operator's call is logged with the account and the key that it is about", async (t) => {
  const gateway = await startGateway(t, { yaml: yamlFor('http://127.0.0.1:1/v1') })
  const none = { account: undefined, key: undefined }
  const logged = async (call: string, body?: object, headers?: object) => {
    const [method = '', path = ''] = call.split(' ')
    const answer = (await (await gateway.admin(method, path, body, headers)).json()) as {
      id: string
      key: string
    }
    const line = linesOf(gateway).at(-1)
    return { about: { account: line?.['account'], key: line?.['key'] }, answer }
  }
  const made = await logged('POST accounts', { name: 'acme' })
  const account = made.answer.id
  t.same(made.about, { ...none, account })
  for (const path of [`accounts/${account}`, 'accounts/acme']) {
    t.same((await logged(`PATCH ${path}`, { plan: 'default' })).about, { ...none, account })
    t.same((await logged(`POST ${path}/topup`, { amount: 1 })).about, { ...none, account })
    t.same((await logged(`GET ${path}/keys`)).about, { ...none, account })
  }
  t.same((await logged('GET audit?account=acme')).about, { ...none, account })
  const { about, answer } = await logged('POST accounts/acme/keys', {})
  const key = answer.id
  t.same(about, { account, key })
  t.same((await logged(`POST keys/find`, { key: answer.key })).about, { ...none, key })
  t.same((await logged(`PATCH keys/${key}`, { budget: null })).about, { ...none, key })
  t.same((await logged(`POST keys/${key}/rotate`, { grace: 60 })).about, { ...none, key })
  t.same(
    (await logged(`DELETE keys/${key}`, undefined, { authorization: 'Bearer wrong' })).about,
    none,
  )
  t.same((await logged(`DELETE keys/${key}`)).about, { ...none, key })
  t.same((await logged(`DELETE keys/${newId('key')}`)).about, none)
  t.same((await logged('GET accounts/nobody')).about, none)
})

t.test('alive without Redis, ready only with it', async (t) => {
  const gateway = await startGateway(t, { yaml: yamlFor('http://127.0.0.1:1/v1') })
  const get = async (path: string) => {
    const answer = await fetch(gateway.adminUrl + path)
    return { status: answer.status, body: await answer.json() }
  }
  t.match(await get('/readyz'), { status: 200, body: { status: 'ready', redis: 'ok' } })
  await gateway.redis.kill()
  const readiness = async () => {
    for (;;) {
      const now = await get('/readyz')
      if (now.status !== 200) return now
    }
  }
  t.match(await readiness(), { status: 503, body: { redis: 'not reachable' } })
  t.match(await get('/healthz'), { status: 200, body: { status: 'ok' } })
})

t.test('connected, but not ready until the ledger has taken up its holds', async (t) => {
  const gateway = await startGateway(t, { yaml: yamlFor('http://127.0.0.1:1/v1') })
  const { client } = await connectLink(t, gateway.redis.socket)
  const readiness = async () => (await fetch(`${gateway.adminUrl}/readyz`)).json()
  // Taking up holds begins with loading its scripts.
  await client.acl('SETUSER', 'default', '-script')
  await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  const shut = { status: 'not ready', redis: 'ok', ledger: 'not open', spool: 'ok' }
  await until(async () => isDeepStrictEqual(await readiness(), { ...shut, draining: false }))
  await client.acl('SETUSER', 'default', '+script')
  const open = { status: 'ready', redis: 'ok', ledger: 'ok', spool: 'ok', draining: false }
  await until(async () => isDeepStrictEqual(await readiness(), open))
})
