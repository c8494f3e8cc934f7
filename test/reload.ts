// A reload on a whole gateway: what runs keeps its configuration, what begins has the new one, and a file that is bad in
// any way changes nothing. Under load: test/chaos/reloaded.ts.

import t from 'tap'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { mock } from 'node:test'
import { z } from 'zod'
import type { Plugin } from '../src/plugin.ts'
import { Editions } from '../src/reload.ts'
import { startBackend } from './fixtures/backend.ts'
import { chat } from './fixtures/backend-model.ts'
import { certificate } from './fixtures/certificate.ts'
import { Gate } from './fixtures/gate.ts'
import { adminToken, codeOf, send, startGateway } from './fixtures/gateway.ts'
import type { InProcess } from './fixtures/gateway.ts'
import { endsByHand } from './fixtures/hand-clock.ts'
import { metricOf } from './fixtures/metric.ts'
import { Reading, ask, balanceOf, differencesOf } from './fixtures/money.ts'
import { tempDir } from './fixtures/temp-dir.ts'
import { until } from './fixtures/until.ts'

const yamlFor = (url: string, price: number, more = '') =>
  `models: { m: { targets: [{ url: '${url}' }], price: { input: 0, output: ${price} } } }\n${more}`

const isReloadOk = (gateway: InProcess) => metricOf(gateway, 'tollgate_config_reload_ok ')

t.test('a stream keeps the price it began with, the next request has the new one', async (t) => {
  const gate = new Gate()
  const backend = await startBackend(t, chat({ chunks: 4, gate }))
  const running = await startGateway(t, { yaml: yamlFor(backend.url, 1) })
  const account = await running.account(1000)
  gate.next(3)
  const reading = new Reading(await running.call('/v1/chat', account.key, ask(10, true)))
  await reading.until('w1 ')
  await running.rewrite(yamlFor(backend.url, 5))
  const changes = await running.gateway.reload('test')
  t.match(changes, [{ path: ['models', 'm', 'price', 'output'], from: 1, to: 5 }])
  gate.open()
  t.match(await reading.end(), /\[DONE\]/)
  t.match(await balanceOf(running, account), { spent: 4 })
  await (await running.call('/v1/chat', account.key, ask(10, true))).text()
  t.match(await balanceOf(running, account), { spent: 4 + 4 * 5 })
  t.same(await differencesOf(running), [])
})

t.test(
  'a bad file changes nothing: it is logged, counted, and the next good one is taken',
  async (t) => {
    const backend = await startBackend(t)
    const running = await startGateway(t, { yaml: yamlFor(backend.url, 1) })
    const { gateway, log, rewrite } = running
    t.equal(await isReloadOk(running), 1)
    const before = gateway.current
    await rewrite(`${yamlFor(backend.url, 2)}drian: 1\nlimits: { heartbeat: soon }\n`)
    await t.rejects(gateway.reload('test'), { code: 'invalid_configuration' })
    t.equal(gateway.current, before)
    t.equal(await isReloadOk(running), 0)
    const line = JSON.parse(
      log.find((one) => one.includes('last good one stays')) ?? '{}',
    ) as object
    t.match(line, {
      level: 'error',
      cause: 'test',
      problems: [/drian/, /:\d+:\d+: limits.heartbeat/],
    })
    await rm(running.file)
    await t.rejects(gateway.reload('test'), { code: 'invalid_configuration' })
    t.equal(gateway.current, before)
    await rewrite(yamlFor(backend.url, 3))
    await gateway.reload('test')
    t.equal(await isReloadOk(running), 1)
  },
)

t.test(
  'a plugin that refuses is a problem with its place; those before it are closed',
  async (t) => {
    const seen: string[] = []
    const schema = z.strictObject({ fail: z.boolean().default(false) })
    const own = (name: string): Plugin<z.infer<typeof schema>> => ({
      name,
      schema,
      setup(_gateway, { fail }) {
        if (fail) throw new Error('no such queue')
        seen.push(`+${name}`)
        return { close: async () => void seen.push(`-${name}`) }
      },
    })
    const ownPlugins = [own('one'), own('two')] as readonly Plugin[]
    const yaml = yamlFor('http://127.0.0.1:1/v1', 1)
    const running = await startGateway(t, { yaml, ownPlugins })
    const { gateway, rewrite, file } = running
    await rewrite(`${yaml}plugins:\n  two: { fail: true }\n`)
    const problems = [
      { file, line: 7, column: 3, path: ['plugins', 'two'], message: 'no such queue' },
    ]
    await t.rejects(gateway.reload('test'), { code: 'invalid_configuration', problems })
    t.same(seen, ['+one', '+two', '+one', '-one'])
    await rewrite(`${yaml}plugins: { two: false }\n`)
    await gateway.reload('test')
    await until(() => seen.length === 7)
    t.same(seen.slice(4), ['+one', '-two', '-one'], 'the old ones are closed')
    await running.close()
    t.same(seen.slice(7), ['-one'])
  },
)

t.test(
  'a plugin whose set-up never ends is named, and the last good configuration stays',
  async (t) => {
    const hanging = Promise.withResolvers<void>()
    const schema = z.strictObject({ hang: z.boolean().default(false) })
    const own: Plugin<z.infer<typeof schema>> = {
      name: 'own',
      schema,
      async setup(_gateway, { hang }) {
        if (!hang) return {}
        hanging.resolve()
        return await new Promise<never>(() => undefined)
      },
    }
    const yaml = yamlFor('http://127.0.0.1:1/v1', 1)
    const running = await startGateway(t, { yaml, ownPlugins: [own] as readonly Plugin[] })
    const { gateway, rewrite } = running
    const before = gateway.current
    await rewrite(`${yaml}plugins:\n  own: { hang: true }\n`)
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const message = 'setup of own took more than 15000 ms'
    const problems = [{ path: ['plugins', 'own'], message }]
    const refused = t.rejects(gateway.reload('test'), { code: 'invalid_configuration', problems })
    await hanging.promise
    mock.timers.tick(15_000)
    await refused
    mock.timers.reset()
    t.equal(gateway.current, before)
    t.equal(await isReloadOk(running), 0)
    await rewrite(`${yaml}plugins: { own: {} }\n`)
    await gateway.reload('test')
    t.equal(await isReloadOk(running), 1, 'the next reload has its turn')
  },
)

t.test('at the start, too, a plugin whose set-up never ends is named', async (t) => {
  const hanging = Promise.withResolvers<void>()
  const own: Plugin<object> = {
    name: 'own',
    schema: z.strictObject({}),
    async setup() {
      hanging.resolve()
      return await new Promise<never>(() => undefined)
    },
  }
  const yaml = `${yamlFor('http://127.0.0.1:1/v1', 1)}plugins: { own: {} }\n`
  const starting = startGateway(t, { yaml, ownPlugins: [own] as readonly Plugin[] })
  const refused = t.rejects(starting, { message: 'setup of own took more than 15000 ms' })
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  await hanging.promise
  mock.timers.tick(15_000)
  await refused
})

t.test('a reload that hangs does not keep a gateway from its end', async (t) => {
  const { gateway } = await startGateway(t, { yaml: yamlFor('http://127.0.0.1:1/v1', 1) })
  const loading = Promise.withResolvers<void>()
  const editions = await Editions.open(gateway.current, [], {
    build: () => gateway.current,
    complete: async (config) => config,
    builtIn: [],
    load() {
      loading.resolve()
      return new Promise<never>(() => undefined)
    },
    secretsOf: () => [],
    onTaken: () => undefined,
  })
  void editions.reload('test')
  await loading.promise
  t.ok(await endsByHand(t, () => editions.close()))
})

t.test('what needs a restart stays as it is and is told; the rest applies', async (t) => {
  const backend = await startBackend(t)
  const running = await startGateway(t, { yaml: yamlFor(backend.url, 1) })
  const { gateway, log, rewrite } = running
  await rewrite(
    yamlFor(backend.url, 2, 'store: { disk: { path: /elsewhere } }\nlimits: { headers: 9s }\n'),
  )
  const changes = await gateway.reload('test')
  const later = changes.filter(({ needsRestart }) => needsRestart).map(({ path }) => path.join('.'))
  t.same(later.toSorted(), ['limits.headers', 'store'])
  const { config, effective } = gateway.current
  t.same(config.store, gateway.config.store)
  t.equal(config.limits.headersMs, 60_000)
  t.match(effective, { store: 'disk', limits: { headers: '60s' } }, 'as it runs')
  t.match(effective, { models: { m: { price: { output: 2 } } } })
  const line = log.findLast((one) => one.includes('was taken over')) ?? ''
  t.match(JSON.parse(line), {
    changed: ['models.m.price.output: 1 → 2'],
    needs_restart: [/store: "disk" → /, /limits\.headers: "60s" → "9s"/],
  })
  t.equal((await gateway.reload('test')).length, 2, 'they are told again')
  t.equal(gateway.current.effective, effective, 'and nothing else is done')
})

t.test("a plugin's keys that are read once stay as they run", async (t) => {
  const yaml = (block: string) =>
    `${yamlFor('http://127.0.0.1:1/v1', 1)}plugins: { metering: { ${block} } }\n`
  const { gateway, rewrite } = await startGateway(t, { yaml: yaml('lease: 30s, time_zone: UTC') })
  await rewrite(yaml('lease: 90s, time_zone: Europe/Berlin, min_output_tokens: 7'))
  await gateway.reload('test')
  t.match(gateway.current.config.plugins.get('metering'), {
    lease: 30_000,
    time_zone: 'UTC',
    min_output_tokens: 7,
  })
})

t.test('what is counted about a caller outlives a reload', async (t) => {
  const yaml = yamlFor('http://127.0.0.1:1/v1', 1)
  const limits = (n: number) => `${yaml}plugins: { auth: { failures_per_minute_per_ip: ${n} } }\n`
  const running = await startGateway(t, { yaml: limits(2) })
  const wrong = `tg_live_${'x'.repeat(20)}`
  const ask = async () => (await running.call('/v1/models', wrong)).status
  t.same([await ask(), await ask(), await ask()], [401, 401, 429])
  await running.rewrite(`${limits(2)}drain: 5s\n`)
  await running.gateway.reload('test')
  t.equal(await ask(), 429)
})

t.test('limits, log level and secrets are the new ones', async (t) => {
  const backend = await startBackend(t)
  const targets = (key: string) =>
    `models: { m: { targets: [{ url: '${backend.url}', key: ${key} }] } }\n`
  const running = await startGateway(t, { yaml: targets('first-secret') })
  const { gateway, log, rewrite } = running
  const { key } = await running.account(1000)
  const say = (text: string) => gateway.log.warn({}, text)
  await rewrite(
    `${targets('second-secret')}limits: { json_v1: 2MiB, bodies: 8MiB, json_message: 1MiB }\n`,
  )
  await gateway.reload('test')
  await (await running.call('/v1/chat', key, ask(5, false))).text()
  t.equal(backend.requests[0]?.headers['authorization'], 'Bearer second-secret')
  const large = JSON.stringify({
    model: 'm',
    messages: [{ role: 'user', content: 'x'.repeat(3 * 2 ** 20) }],
  })
  t.equal((await running.call('/v1/chat', key, large)).status, 413)
  await until(() => {
    say('is second-secret masked, first-secret forgotten')
    return Boolean(log.at(-1)?.includes('first-secret'))
  })
  t.match(log.at(-1), /is \*\*\* masked/)
  await rewrite(`${targets('second-secret')}log: { level: error }\n`)
  await gateway.reload('test')
  const lines = log.length
  say('nobody')
  t.equal(log.length, lines)
})

t.test('the admin token is another from the next request on', async (t) => {
  const running = await startGateway(t, { yaml: yamlFor('http://127.0.0.1:1/v1', 1) })
  await writeFile(
    running.file,
    (await readFile(running.file, 'utf8')).replace(adminToken, 'other-token'),
  )
  t.equal((await running.admin('POST', 'reload')).status, 200)
  t.equal((await running.admin('GET', 'config')).status, 401)
  const config = `${running.adminUrl}/admin/config`
  t.equal((await send(config, { token: 'other-token' })).status, 200)
})

/** The certificate that a new connection gets. */
function certificateOf(port: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: Number(port), rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256)
      socket.destroy()
    })
    socket.on('error', reject)
  })
}

t.test('a renewed certificate is served to new connections, once its key is there', async (t) => {
  const dir = await tempDir(t)
  const [cert, key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')]
  await writeFile(cert, certificate.cert)
  await writeFile(key, certificate.key)
  const yaml = yamlFor('http://127.0.0.1:1/v1', 1)
  const running = await startGateway(t, { yaml, listen: `tls: { cert: ${cert}, key: ${key} }` })
  const { gateway } = running
  const { port } = new URL(running.url)
  const first = await certificateOf(port)
  await writeFile(cert, certificate.renewed.cert)
  await t.rejects(gateway.reload('test'), { message: /is not the key of the certificate/ })
  t.equal(await certificateOf(port), first)
  await writeFile(key, certificate.renewed.key)
  t.match(await gateway.reload('test'), [
    { path: ['listen', 'tls', 'cert'], needsRestart: false },
    { path: ['listen', 'tls', 'key'], needsRestart: false },
  ])
  t.not(await certificateOf(port), first)
})

t.test('TLS itself comes and goes with a restart', async (t) => {
  const yaml = yamlFor('http://127.0.0.1:1/v1', 1)
  const running = await startGateway(t, { yaml })
  const { certPath, keyPath } = certificate
  const text = await readFile(running.file, 'utf8')
  const tls = `port: 0, tls: { cert: ${certPath}, key: ${keyPath} }`
  await writeFile(running.file, text.replace('port: 0', tls))
  const changes = await running.gateway.reload('test')
  t.match(changes, [{ path: ['listen', 'tls'], needsRestart: true }])
  t.equal((await fetch(`${running.url}/v1/models`)).status, 401)
})

t.test('while it drains, a reload is refused', async (t) => {
  const gate = new Gate()
  const backend = await startBackend(t, chat({ chunks: 3, gate }))
  const running = await startGateway(t, { yaml: yamlFor(backend.url, 1) })
  const { key } = await running.account(1000)
  gate.next(2)
  const reading = new Reading(await running.call('/v1/chat', key, ask(10, true)))
  await reading.until('w0 ')
  const closing = running.close()
  await until(() => running.gateway.state.draining)
  await running.rewrite(yamlFor(backend.url, 2))
  t.equal(await codeOf(await running.admin('POST', 'reload')), 'server_draining')
  gate.open()
  t.match(await reading.end(), /\[DONE\]/)
  await closing
})

t.test('two reloads at once are done one after the other', async (t) => {
  const order: string[] = []
  const slow: Plugin = {
    name: 'slow',
    schema: z.strictObject({}),
    async setup() {
      order.push('begins')
      await new Promise((resolve) => setImmediate(resolve))
      order.push('ends')
      return {}
    },
  }
  const yaml = yamlFor('http://127.0.0.1:1/v1', 1)
  const { gateway, rewrite } = await startGateway(t, { yaml, ownPlugins: [slow] })
  await rewrite(yamlFor('http://127.0.0.1:1/v1', 2))
  const both = await Promise.all([gateway.reload('a'), gateway.reload('b')])
  t.same(
    both.map(({ length }) => length),
    [1, 0],
    'the second finds nothing to do',
  )
  t.same(order, ['begins', 'ends', 'begins', 'ends'])
})
