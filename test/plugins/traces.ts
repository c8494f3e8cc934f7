import { createServer } from 'node:http'
import { once } from 'node:events'
import { json as jsonOf } from 'node:stream/consumers'
import { join } from 'node:path'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { failing, sse } from '../fixtures/backend-scripts.ts'
import { send, spawnGateway, startGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { eventually, until } from '../fixtures/until.ts'

const sdk = join(import.meta.dirname, '../../config/examples/traces/otlp.mjs')
const hi = { model: 'm', messages: [{ role: 'user', content: 'Hi there' }] }

type Value = {
  readonly stringValue?: string
  readonly intValue?: number
  readonly arrayValue?: { readonly values: readonly Value[] }
}

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly status: { readonly code?: number }
  readonly attributes: readonly { readonly key: string; readonly value: Value }[]
}

const server = 2
const client = 3

/** A collector of OpenTelemetry: takes spans in JSON. */
async function startCollector(t: Test) {
  const spans: Span[] = []
  const http = createServer((req, res) => {
    void jsonOf(req).then((body) => {
      type Batch = { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] }
      for (const { scopeSpans } of (body as Batch).resourceSpans) {
        for (const scope of scopeSpans) spans.push(...scope.spans)
      }
      res.end('{}')
    })
  })
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  t.teardown(() => {
    http.closeAllConnections()
    http.close()
  })
  const { port } = http.address() as AddressInfo
  const named = (name: string) => eventually(async () => spans.find((span) => span.name === name))
  return { url: `http://127.0.0.1:${port}`, spans, named }
}

function attributesOf({ attributes }: Span): Record<string, unknown> {
  const plain = ({ stringValue, intValue, arrayValue }: Value): unknown =>
    arrayValue?.values.map(plain) ?? stringValue ?? Number(intValue)
  return Object.fromEntries(attributes.map(({ key, value }) => [key, plain(value)]))
}

/** The exit code, after SIGTERM. */
async function stopped({ child }: OwnProcess): Promise<unknown> {
  child.kill('SIGTERM')
  const [code] = await once(child, 'exit')
  return code
}

async function traced(t: Test, yaml: string, env: Readonly<Record<string, string>> = {}) {
  const collector = await startCollector(t)
  const gate = await spawnGateway(t, {
    yaml: `${yaml}\nlog: { level: info }\nplugins: { traces: { sdk: '${sdk}' } }`,
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '10', ...env },
  })
  return { collector, gate }
}

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parent = `00-${traceId}-b7ad6b7169203331-01`

t.test(
  "a stream is a span of the gateway in its caller's trace, and one of the backend below",
  async (t) => {
    const backend = await startBackend(t)
    const { collector, gate } = await traced(
      t,
      `models: { m: { targets: [{ url: '${backend.url}' }] } }`,
    )
    const { id, key } = await gate.account(10_000)
    const headers = { traceparent: parent, tracestate: 'shop=1', baggage: 'user=alice' }
    const body = { ...hi, stream: true }
    const answer = await send(`${gate.url}/v1/chat`, { token: key, headers, body })
    await answer.text()
    const outer = await collector.named('POST /v1/chat')
    const inner = await collector.named('chat m')
    t.match(outer, { traceId, parentSpanId: 'b7ad6b7169203331', kind: server })
    t.match(inner, { traceId, parentSpanId: outer.spanId, kind: client })
    t.ok(BigInt(inner.startTimeUnixNano) >= BigInt(outer.startTimeUnixNano))
    t.ok(BigInt(inner.endTimeUnixNano) <= BigInt(outer.endTimeUnixNano))
    const { prompt, completion } = backend.served
    t.match(attributesOf(outer), {
      'http.request.method': 'POST',
      'http.route': '/v1/chat',
      'http.response.status_code': 200,
      'tollgate.request.id': answer.headers.get('x-request-id'),
      'tollgate.account.id': id,
      'tollgate.cost': prompt + completion,
      'tollgate.basis': 'reported',
    })
    t.match(attributesOf(inner), {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'm',
      'gen_ai.usage.input_tokens': prompt,
      'gen_ai.usage.output_tokens': completion,
      'gen_ai.response.finish_reasons': ['stop'],
      'tollgate.target': '1',
    })
    const got = backend.requests[0]?.headers
    t.equal(got?.traceparent, `00-${traceId}-${inner.spanId}-01`, 'the backend continues it')
    t.equal(got?.tracestate, 'shop=1')
    t.equal(got?.baggage, undefined, "nothing else of the client's goes on")
    await until(() => gate.log.some((line) => line.includes(`"trace_id":"${traceId}"`)))
    const spans = JSON.stringify(collector.spans)
    t.notMatch(spans, key, 'no key in a span')
    t.notMatch(spans, /Hi there|\bw\d/, "no text of the client's or the backend's")
  },
)

t.test('each attempt is a span, the failed ones too', async (t) => {
  const broken = await startBackend(t, failing(500))
  const backend = await startBackend(t)
  const targets = `[{ url: '${broken.url}', priority: 1 }, { url: '${backend.url}', priority: 2 }]`
  const { collector, gate } = await traced(t, `models: { m: { targets: ${targets} } }`)
  const { key } = await gate.account(10_000)
  t.equal((await gate.call('/v1/chat/completions', key, hi)).status, 200)
  await collector.named('POST /v1/chat/completions')
  const attempts = collector.spans.filter(({ kind }) => kind === client)
  t.same(
    attempts.map((span) => [
      attributesOf(span)['tollgate.target'],
      attributesOf(span)['error.type'],
    ]),
    [
      ['1', 'upstream_error'],
      ['2', undefined],
    ],
  )
  t.same(
    attempts.map(({ status }) => status.code),
    [2, 0],
    'an error, then none',
  )
  t.equal(new Set(collector.spans.map((span) => span.traceId)).size, 1)
})

t.test(
  'a refusal is a span without an attempt; what a client does wrong is no error',
  async (t) => {
    const backend = await startBackend(t)
    const { collector, gate } = await traced(
      t,
      `models: { m: { targets: [{ url: '${backend.url}' }] } }`,
    )
    const { key } = await gate.account(0)
    const headers = { traceparent: `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, tracestate: 'a=1' }
    await send(`${gate.url}/v1/chat`, { token: key, body: hi, headers })
    const span = await collector.named('POST /v1/chat')
    t.match(attributesOf(span), {
      'http.response.status_code': 402,
      'error.type': 'insufficient_balance',
    })
    t.equal(span.status.code, 0)
    t.notOk(span.parentSpanId, 'an invalid trace is not continued')
    t.equal(collector.spans.length, 1, 'no attempt, and no span of the admin API')
  },
)

t.test(
  'a failure of the gateway or its backend is an error, whatever status went out',
  async (t) => {
    const cut = sse(['data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'], { end: 'cut' })
    const backend = await startBackend(t, cut)
    const { collector, gate } = await traced(
      t,
      `models: { m: { targets: [{ url: '${backend.url}' }] } }`,
    )
    const { key } = await gate.account(10_000)
    const stream = await gate.call('/v1/chat', key, { ...hi, stream: true })
    t.match(await stream.text(), /upstream_incomplete/)
    const outer = await collector.named('POST /v1/chat')
    t.match(attributesOf(outer), {
      'http.response.status_code': 200,
      'error.type': 'upstream_incomplete',
    })
    t.equal(outer.status.code, 2)
    backend.on(failing(422))
    t.equal((await gate.call('/v1/chat/completions', key, hi)).status, 422)
    const refused = await collector.named('POST /v1/chat/completions')
    t.match(attributesOf(refused), { 'http.response.status_code': 422, 'error.type': '422' })
    t.equal(refused.status.code, 0, "the client's fault")
    const attempt = collector.spans.find(({ parentSpanId }) => parentSpanId === refused.spanId)
    t.match(attempt, { status: { code: 2 } }, 'the attempt has failed')
  },
)

t.test('what the router refuses has no route; the admin port has no spans', async (t) => {
  const { collector, gate } = await traced(
    t,
    `models: { m: { targets: [{ url: 'http://127.0.0.1:1' }] } }`,
  )
  t.equal((await gate.admin('GET', 'nothing')).status, 404)
  t.equal((await fetch(`${gate.adminUrl}/nothing`, { method: 'POST' })).status, 404)
  t.equal((await fetch(`${gate.url}/nothing`)).status, 404)
  t.equal(attributesOf(await collector.named('GET'))['http.route'], undefined)
  t.equal(await stopped(gate), 0)
  t.equal(collector.spans.length, 1)
})

t.test('a message of a session is a chat with its id', async (t) => {
  const backend = await startBackend(t)
  const { collector, gate } = await traced(
    t,
    `models: { m: { targets: [{ url: '${backend.url}' }] } }`,
  )
  const { key } = await gate.account(10_000)
  const session = await gate.call('/api/chat/sessions', key, { model: 'm' })
  const { id } = (await session.json()) as { id: string }
  await (await gate.call(`/api/chat/sessions/${id}/messages`, key, { content: 'Hi' })).text()
  await collector.named('POST /api/chat/sessions/:id/messages')
  t.match(attributesOf(await collector.named('chat m')), { 'gen_ai.conversation.id': id })
})

t.test('clients do not decide what is recorded', async (t) => {
  const backend = await startBackend(t)
  const { collector, gate } = await traced(
    t,
    `models: { m: { targets: [{ url: '${backend.url}' }] } }`,
    { OTEL_TRACES_SAMPLER_ARG: '1e-9' },
  )
  const { key } = await gate.account(10_000)
  const headers = { traceparent: parent }
  await send(`${gate.url}/v1/chat`, { token: key, body: hi, headers })
  t.match(backend.requests[0]?.headers.traceparent, new RegExp(`^00-${traceId}-.{16}-00$`))
  const invalid = { traceparent: `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, tracestate: 'a=1' }
  await send(`${gate.url}/v1/chat`, { token: key, body: hi, headers: invalid })
  t.notMatch(backend.requests[1]?.headers.traceparent, /-0{32}-/, 'a trace of its own')
  t.equal(backend.requests[1]?.headers.tracestate, undefined)
  // An id that a sampler by ids takes at every share.
  const chosen = { traceparent: `00-${'00000001'.repeat(4)}-b7ad6b7169203331-01` }
  await send(`${gate.url}/v1/chat`, { token: key, body: hi, headers: chosen })
  t.equal(await stopped(gate), 0)
  t.same(collector.spans, [])
})

t.test('the last spans are sent when the gateway ends', async (t) => {
  const backend = await startBackend(t)
  const { collector, gate } = await traced(
    t,
    `models: { m: { targets: [{ url: '${backend.url}' }] } }`,
    { OTEL_BSP_SCHEDULE_DELAY: '600000' },
  )
  const { key } = await gate.account(10_000)
  await gate.call('/v1/chat', key, hi)
  t.equal(await stopped(gate), 0)
  t.same(collector.spans.map(({ name }) => name).sort(), ['POST /v1/chat', 'chat m'])
})

t.test('a file without a provider stops the start', async (t) => {
  const dir = t.testdir({ 'none.mjs': 'export const tracer = {}\n' })
  const yaml = (file: string) =>
    `models: { m: { targets: [{ url: 'http://127.0.0.1:1' }] } }\nplugins: { traces: { sdk: '${file}' } }`
  await t.rejects(startGateway(t, { yaml: yaml(`${dir}/none.mjs`) }), /exports no `provider`/)
  await t.rejects(startGateway(t, { yaml: yaml(`${dir}/gone.mjs`) }), /Cannot find module/)
})
