import t from 'tap'
import type { Test } from 'tap'
import { z } from 'zod'
import { loadConfig } from '../src/config/load.ts'
import { plugins, startGateway as build } from '../src/gateway.ts'
import { createLog } from '../src/log.ts'
import type { Plugin } from '../src/plugin.ts'
import { outlivesKills } from './fixtures/aof.ts'
import { startBackend } from './fixtures/backend.ts'
import { chat, endless } from './fixtures/backend-model.ts'
import { startGateway } from './fixtures/gateway.ts'
import { connectLink } from './fixtures/ledger.ts'
import { ask, outputOnly } from './fixtures/money.ts'
import { startRedis } from './fixtures/redis-server.ts'
import { tempDir } from './fixtures/temp-dir.ts'
import { until } from './fixtures/until.ts'

const hi = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
const silent = createLog({ level: 'silent', format: 'json', write: () => undefined })

async function configOf(t: Test, yaml: string, more: readonly Plugin[] = []) {
  const file = `${t.testdir({ 'gateway.yaml': yaml })}/gateway.yaml`
  const loaded = await loadConfig(file, [...plugins, ...more], { env: {} })
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems))
  return loaded.config
}

t.test('a model is found by its id and by its aliases, alike', async (t) => {
  const backend = await startBackend(t)
  const yaml = `models: { m: { aliases: [nick], targets: [{ url: '${backend.url}', model: real }] } }`
  const { gateway, account, call } = await startGateway(t, { yaml })
  t.equal(gateway.findModel('nick'), gateway.findModel('m'))
  t.equal(gateway.findModel('real'), undefined)
  t.equal(gateway.findModel('__proto__'), undefined)
  const { key } = await account(10_000)
  t.equal((await call('/v1/chat', key, { ...hi, model: 'nick' })).status, 200)
  t.match(JSON.parse(String(backend.requests[0]?.body)), { model: 'real' })
})

t.test('a plugin that is switched off has no routes', async (t) => {
  const yaml = `models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\nplugins: { billing: false }`
  const { account, call } = await startGateway(t, { yaml })
  const { key } = await account(0)
  t.equal((await call('/api/billing/balance', key)).status, 404)
  t.equal((await call('/v1/models', key)).status, 200)
})

/** A plugin that records its set-up and its end. */
function recorder(name: string, seen: string[], setup: Plugin['setup'] = () => ({})): Plugin {
  return {
    name,
    schema: z.strictObject({}),
    async setup(gateway, block) {
      seen.push(`${name} set up`)
      const running = await setup(gateway, block)
      return { ...running, close: async () => void seen.push(`${name} closed`) }
    },
  }
}

const base = (socket: string, data: string) => `
listen: { host: 127.0.0.1, port: 0 }
admin: { listen: { host: 127.0.0.1, port: 0 } }
data: ${data}
redis: unix://${socket}
models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }
`

t.test('plugins are set up in order and closed in reverse', async (t) => {
  const redis = await startRedis(t)
  const seen: string[] = []
  const own = [recorder('one', seen), recorder('two', seen)]
  const yaml = `${base(redis.socket, await tempDir(t))}plugins: { one: {}, two: {} }`
  const config = await configOf(t, yaml, own)
  const options = { effective: {}, log: silent, version: 'test', ownPlugins: own }
  const gateway = await build(config, options)
  await gateway.close()
  t.same(seen, ['one set up', 'two set up', 'two closed', 'one closed'])
})

t.test('a plugin that refuses the configuration stops the start, and nothing stays', async (t) => {
  const redis = await startRedis(t)
  const seen: string[] = []
  const refuse = () => {
    throw new Error('no such queue')
  }
  const own = [recorder('one', seen), recorder('two', seen, refuse)]
  const yaml = `${base(redis.socket, await tempDir(t))}plugins: { one: {}, two: {} }`
  const config = await configOf(t, yaml, own)
  const options = { effective: {}, log: silent, version: 'test' }
  await t.rejects(build(config, { ...options, ownPlugins: own }), { message: 'no such queue' })
  t.same(seen, ['one set up', 'two set up', 'one closed'])
  const again = await build(config, { ...options, ownPlugins: own.slice(0, 1) })
  await again.close()
})

t.test(
  'what an account owes is refused with its sum, and told by a gateway that starts',
  async (t) => {
    const backend = await startBackend(t, chat({ chunks: 30, ignoreMaxTokens: true }))
    const yaml = outputOnly(backend.url)
    const running = await startGateway(t, { yaml })
    const account = await running.account(20)
    await (await running.call('/v1/chat', account.key, ask(20, false))).text()
    const refused = await running.call('/v1/chat', account.key, ask(20, false))
    const error = { code: 'insufficient_balance', owed: 10, available: 0, message: /10/ }
    t.match(await refused.json(), { error })
    const { adminUrl } = await startGateway(t, { yaml, redis: running.redis })
    const metrics = async () => (await fetch(`${adminUrl}/metrics`)).text()
    await until(async () => (await metrics()).includes('\ntollgate_owed_tokens 10\n'))
  },
)

t.test('a replica is logged once, also by a gateway that has holds to take up', async (t) => {
  const backend = await startBackend(t, endless({ gapMs: 5 }))
  const yaml = `models: { m: { targets: [{ url: '${backend.url}' }] } }`
  // The start has nothing to warn of.
  const running = await startGateway(t, {
    yaml,
    redis: await startRedis(t, { args: outlivesKills }),
  })
  const { key } = await running.account(1_000_000)
  const leave = new AbortController()
  await running.call('/v1/chat', key, { ...hi, stream: true }, leave.signal)
  const { redis, ledger } = running.gateway
  let lost = 0
  redis.onLost(() => lost++)
  const { client } = await connectLink(t, running.redis.socket)
  await client.replicaof('127.0.0.1', '1')
  await until(() => lost >= 5)
  await client.replicaof('no', 'one')
  await until(() => ledger.isOpen && redis.outage.refuses === undefined)
  leave.abort()
  const lines = running.log.map((line) => JSON.parse(line) as { level: string; msg: string })
  const warnings = lines.filter(({ level }) => level === 'warn').map(({ msg }) => msg)
  t.same(warnings, ['Redis refuses to write: work that needs it is refused'])
})

t.test('nor does a replica that many ask make news of its own', async (t) => {
  const backend = await startBackend(t)
  const wide = 'requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: 100'
  const yaml = `models: { m: { targets: [{ url: '${backend.url}' }] } }\nplans: { default: { ${wide} } }`
  const running = await startGateway(t, { yaml })
  const { key } = await running.account(1_000_000)
  const { redis, ledger } = running.gateway
  let lost = 0
  redis.onLost(() => lost++)
  const { client } = await connectLink(t, running.redis.socket)
  const ask = async () => {
    while (lost < 10) await (await running.call('/v1/chat', key, hi)).text()
  }
  const asking = Array.from({ length: 10 }, ask)
  await until(() => backend.requests.length > 100)
  await client.replicaof('127.0.0.1', '1')
  await Promise.all(asking)
  await client.replicaof('no', 'one')
  await until(() => ledger.isOpen && redis.outage.refuses === undefined)
  const untaken = running.log.filter((line) => line.includes('could not be taken up again'))
  t.same(untaken, [])
})

t.test('the admin token that it makes itself is never logged either', async (t) => {
  const redis = await startRedis(t)
  const lines: string[] = []
  const log = createLog({ level: 'info', format: 'json', write: (line) => lines.push(line) })
  const config = await configOf(t, base(redis.socket, await tempDir(t)))
  const gateway = await build(config, { effective: {}, log, version: 'test' })
  const { token } = gateway.config.admin
  t.match(token, /^[\w-]{43}$/)
  gateway.log.info({ token }, `it is ${token}`)
  t.match(lines.at(-1), /"token":"\*\*\*","msg":"it is \*\*\*"/)
  await gateway.close()
})
