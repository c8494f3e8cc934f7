import t from 'tap'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { startBackend } from '../fixtures/backend.ts'
import { chat, endless } from '../fixtures/backend-model.ts'
import { Counted } from '../fixtures/counted.ts'
import { Gate } from '../fixtures/gate.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { soon, until } from '../fixtures/until.ts'
import { z } from '../../src/config/schema.ts'
import { loadConfig } from '../../src/config/load.ts'
import { plugins, startGateway as build } from '../../src/gateway.ts'
import { createLog } from '../../src/log.ts'
import type { Plugin } from '../../src/plugin.ts'
import { answering } from '../../src/exchange.ts'
import type { Exchange } from '../../src/exchange.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const yamlFor = (url: string, more = '') =>
  `models: { m: { targets: [{ url: '${url}' }] } }\n${more}`
const hi = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: true }

t.test('each listener serves only its own routes', async (t) => {
  const gateway = await startGateway(t, { yaml: yamlFor('http://127.0.0.1:1/v1') })
  const { key } = await gateway.account(0)
  t.equal((await gateway.call('/v1/models', key)).status, 200)
  for (const path of ['/admin/accounts', '/metrics', '/healthz', '/readyz']) {
    t.equal((await gateway.call(path, key)).status, 404, path)
  }
  const lost = await fetch(`${gateway.adminUrl}/v1/models`)
  t.match(await lost.json(), { error: { code: 'route_not_found', message: /admin port/ } })
  t.equal((await gateway.admin('GET', 'accounts')).status, 200)
})

t.test('draining: running work ends well, new work is refused, then it closes', async (t) => {
  const gate = new Gate()
  const backend = await startBackend(t, chat({ gate }))
  const gateway = await startGateway(t, { yaml: yamlFor(backend.url) })
  const { key } = await gateway.account(10_000)
  gate.next(2)
  const running = await gateway.call('/v1/chat', key, hi)
  const closing = gateway.close()
  const refused = await gateway.call('/v1/models', key)
  t.equal(refused.status, 503)
  t.equal(refused.headers.get('connection'), 'close')
  t.equal(refused.headers.get('retry-after'), '1')
  t.match(await refused.json(), { error: { code: 'server_draining' } })
  const id = refused.headers.get('x-request-id') ?? ''
  const line = gateway.log.find((one) => one.includes(id)) ?? '{}'
  t.match(JSON.parse(line), { status: 503, code: 'server_draining', msg: 'request' })
  const ready = await fetch(`${gateway.adminUrl}/readyz`)
  t.equal(ready.status, 503)
  t.match(await ready.json(), { status: 'not ready', redis: 'ok', ledger: 'ok', draining: true })
  t.equal((await fetch(`${gateway.adminUrl}/healthz`)).status, 200, 'and alive')
  gate.open()
  t.match(await running.text(), /data: \[DONE\]\n\n$/)
  await closing
  await t.rejects(fetch(gateway.url))
  await t.rejects(fetch(gateway.adminUrl))
})

t.test('an invalid request is logged and counted like others', async (t) => {
  const gateway = await startGateway(t, { yaml: yamlFor('http://127.0.0.1:1/v1') })
  const port = Number(new URL(gateway.url).port)
  for (const [head, code] of [
    ['GET / HTTP/1.1\r\n\r\n', 'malformed_request'],
    ['nonsense\r\n\r\n', 'malformed_request'],
    [`GET /?${'a'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 'headers_too_large'],
  ] as const) {
    const client = await rawClient(t, port)
    const { headers, json } = await client.ask(head)
    t.equal(json.error?.code, code)
    const line = gateway.log.find((one) => one.includes(headers['x-request-id'] ?? '?')) ?? '{}'
    t.match(JSON.parse(line), { code, source: 'client', msg: 'request' })
  }
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  t.match(metrics, /^tollgate_rejections_total\{code="malformed_request"\} 2$/m)
})

t.test('a large body of a refused request is freed at once', async (t) => {
  const yaml = yamlFor('http://127.0.0.1:1/v1', 'limits: { json_v1: 100KiB }')
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(0)
  const allocated: Buffer[] = []
  const { allocUnsafeSlow } = Buffer
  t.capture(Buffer, 'allocUnsafeSlow', (size: number) => {
    const bytes = allocUnsafeSlow(size)
    allocated.push(bytes)
    return bytes
  })
  const one = await rawClient(t, Number(new URL(gateway.url).port))
  const head = `POST /v1/chat HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`
  for (const [bytes, status] of [
    [90_000, 400],
    [110_000, 413],
  ] as const) {
    const chunk = `${bytes.toString(16)}\r\n${'a'.repeat(bytes)}\r\n`
    t.equal(
      (await one.ask(`${head}Transfer-Encoding: chunked\r\n\r\n${chunk}0\r\n\r\n`)).status,
      status,
    )
    const kept = allocated.splice(0).map(({ length }) => length)
    t.ok(kept.length > 0 && kept.every((length) => length === 0), String(kept))
  }
})

t.test('a gateway that is to stop says so before it refuses work', async (t) => {
  const yaml = yamlFor('http://127.0.0.1:1/v1', 'shutdown_delay: 1s')
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(0)
  const closing = gateway.close()
  const ready = await fetch(`${gateway.adminUrl}/readyz`)
  t.match(await ready.json(), { status: 'not ready', draining: true })
  const served = await gateway.call('/v1/models', key)
  t.equal(served.status, 200)
  t.not(served.headers.get('connection'), 'close')
  await closing
  await t.rejects(fetch(gateway.url))
})

t.test('after the drain a stream that still runs is told, charged and closed', async (t) => {
  const backend = await startBackend(t, endless({ gapMs: 5 }))
  const gateway = await startGateway(t, { yaml: yamlFor(backend.url, 'drain: 50ms') })
  const other = await startGateway(t, { yaml: yamlFor(backend.url), redis: gateway.redis })
  const { key } = await gateway.account(1_000_000)
  const running = await gateway.call('/v1/chat', key, hi)
  const [text] = await Promise.all([running.text(), gateway.close()])
  t.match(text, /data: \{"error":\{[^\n]*"code":"server_draining"[^\n]*\n\n$/)
  t.notMatch(text, /\[DONE\]/)
  const answer = await other.call('/api/billing/balance', key)
  const { reserved, spent } = (await answer.json()) as { reserved: number; spent: number }
  t.equal(reserved, 0)
  t.ok(spent > 0, `${spent} tokens were charged`)
})

/** Serves 64 MiB that fall silent after the first bytes if the query says so. */
function shelf(served: Counted[]): Plugin<object> {
  const serve = async ({ query }: Exchange) => {
    const content = new Counted(bytes, query.has('silent') ? { stallsAt: 1 } : {})
    served.push(content)
    return { status: 200, headers: { 'Content-Length': String(bytes) }, content }
  }
  return {
    name: 'shelf',
    schema: z.strictObject({}),
    setup: () => ({
      routes: [
        {
          method: 'GET',
          path: '/api/content',
          query: ['silent', 'bytes'],
          access: 'anybody',
          body: 'none',
          begin: answering(serve),
        },
      ],
    }),
  }
}

const bytes = 64 * 1024 * 1024
const shelfYaml = `${yamlFor('http://127.0.0.1:1/v1')}plugins: { shelf: {} }`

t.test('a download is counted while it runs; its log line says whether it was read', async (t) => {
  const served: Counted[] = []
  const gateway = await startGateway(t, { yaml: shelfYaml, ownPlugins: [shelf(served)] })
  const open = async () => {
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
    return Number(/^tollgate_streams_open{kind="download"} (\d+)$/m.exec(metrics)?.[1])
  }
  const lineOf = (answer: Response) =>
    gateway.log.find((line) => line.includes(answer.headers.get('x-request-id') ?? 'none'))

  const taken = await fetch(`${gateway.url}/api/content`)
  t.equal(await open(), 1)
  t.equal((await taken.arrayBuffer()).byteLength, bytes)
  await until(() => lineOf(taken) !== undefined)
  t.match(JSON.parse(lineOf(taken) ?? ''), { status: 200, client_left: undefined })

  const leaving = new AbortController()
  const left = await fetch(`${gateway.url}/api/content?silent`, { signal: leaving.signal })
  leaving.abort()
  await until(() => lineOf(left) !== undefined)
  t.match(JSON.parse(lineOf(left) ?? ''), { status: 499, client_left: true })
  t.ok(served.every((content) => content.destroyed))
  t.equal(await open(), 0)
})

t.test('after the drain a download that still runs is cut', async (t) => {
  const served: Counted[] = []
  const yaml = `${shelfYaml}\ndrain: 100ms`
  const gateway = await startGateway(t, { yaml, ownPlugins: [shelf(served)] })
  const running = await fetch(`${gateway.url}/api/content?silent`)
  await soon(gateway.close())
  await t.rejects(running.arrayBuffer())
  t.ok(served.every((content) => content.destroyed))
  t.match(JSON.parse(gateway.log.find((line) => line.includes('/api/content')) ?? '{}'), {
    code: 'server_draining',
  })
})

t.test('a port in use stops the start and leaves no other port open', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => void taken.close())
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port: adminPort } = free.address() as AddressInfo
  free.close()
  await once(free, 'close')
  const redis = await startRedis(t)
  const file = `${t.testdir({
    'gateway.yaml': `
listen: { host: 127.0.0.1, port: ${port} }
admin: { listen: { host: 127.0.0.1, port: ${adminPort} } }
redis: unix://${redis.socket}
${yamlFor('http://127.0.0.1:1/v1')}`,
  })}/gateway.yaml`
  const loaded = await loadConfig(file, plugins, { env: {} })
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems))
  const log = createLog({ level: 'silent', format: 'json', write: () => undefined })
  const starting = build(loaded.config, { effective: {}, log, version: 'test' })
  await t.rejects(starting, { code: 'EADDRINUSE' })
  await t.rejects(fetch(`http://127.0.0.1:${adminPort}/healthz`))
})
