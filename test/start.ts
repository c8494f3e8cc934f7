import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { Test } from 'tap'
import { ensureDemo, start } from '../src/start.ts'
import { startGateway } from './fixtures/gateway.ts'
import type { GatewaySetup } from './fixtures/gateway.ts'
import { startNode } from './fixtures/redis-node.ts'
import { redisServerPath, startRedis } from './fixtures/redis-server.ts'
import { tempDir } from './fixtures/temp-dir.ts'

const ports = `
listen: { host: 127.0.0.1, port: 0 }
admin: { listen: { host: 127.0.0.1, port: 0 } }
log: { level: silent }
`
const model = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\n"

/** Runs `start` and collects its output; texts for people come on stderr, since this stdout is no terminal. */
function startWith(file: string, env: NodeJS.ProcessEnv = {}) {
  const stopping = new AbortController()
  const stdout = new PassThrough()
  const stderr = new PassThrough()
  const { promise: greeted, resolve } = Promise.withResolvers<string>()
  let said = ''
  stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString()
    if (/listening on.*\n.*\n/.test(said)) resolve(said)
  })
  const told = text(stdout)
  const ended = start(file, { stdout, stderr, env, signal: stopping.signal })
  const finish = async () => {
    const code = await ended
    stdout.end()
    return { code, stdout: await told, stderr: said }
  }
  return { greeted, stop: () => stopping.abort(), finish }
}

t.test('all problems of a bad file are printed at once, and the exit code is 78', async (t) => {
  const yaml = `${ports}
redis: embeded
models:
  m:
    targets: [{ url: ftp://example.com }]
    prise: { input: 1 }
plans: { default: { concurrency: -1 } }
drain: soon
`
  const file = `${t.testdir({ 'gateway.yaml': yaml })}/gateway.yaml`
  const { code, stdout, stderr } = await startWith(file).finish()
  t.equal(code, 78)
  t.equal(stdout, '')
  const lines = stderr.trimEnd().split('\n')
  t.equal(lines.length, 5, stderr)
  for (const line of lines) t.match(line, /gateway\.yaml:\d+:\d+: \S+: \S/)
  for (const path of ['redis', 'targets', 'prise', 'concurrency', 'drain']) {
    t.ok(stderr.includes(path), path)
  }
})

t.test("a file's own words move no cursor", async (t) => {
  const file = `${t.testdir({ 'gateway.yaml': '"m\\x9b31m\\u202e": 1\n' })}/gateway.yaml`
  const { code, stderr } = await startWith(file).finish()
  t.equal(code, 78)
  t.match(stderr, 'm\ufffd31m\ufffd')
  t.notMatch(stderr, /[\u009b\u202e]/)
})

t.test('a missing file is a problem like any other', async (t) => {
  const { code, stderr } = await startWith(`${t.testdir()}/none.yaml`).finish()
  t.equal(code, 78)
  t.match(stderr, /none\.yaml/)
})

t.test('a Redis of another kind than the file says is told in one line', async (t) => {
  const { port } = await startNode(t, { dir: t.testdir(), args: ['--cluster-enabled', 'yes'] })
  const dir = await tempDir(t)
  const file = join(dir, 'gateway.yaml')
  const place = `data: ${dir}/data\nredis: 'redis://127.0.0.1:${port}'\n`
  await writeFile(file, `${ports}${model}${place}`)
  const { code, stderr } = await startWith(file).finish()
  t.equal(code, 1)
  const lines = stderr.trimEnd().split('\n')
  t.match(lines, [
    `it is a node of a Redis Cluster; write redis: { cluster: ['127.0.0.1:${port}'] }`,
  ])
  t.equal(lines.length, 1)
})

t.test("an operator's file that is no plugin is a problem of the configuration", async (t) => {
  const dir = t.testdir({
    'gateway.yaml': `${ports}${model}redis: embedded\nplugins: { ./mine.ts: {} }\n`,
    'mine.ts': 'export const plugins = []\n',
  })
  const { code, stderr } = await startWith(`${dir}/gateway.yaml`).finish()
  t.equal(code, 78)
  t.match(stderr, /mine\.ts.*does not export `plugin`/)
})

t.test('an unknown name in TOLLGATE_PLAIN is a problem, too', async (t) => {
  const file = `${t.testdir({ 'gateway.yaml': ports + model })}/gateway.yaml`
  const { greeted, stop, finish } = startWith(file, { TOLLGATE_PLAIN: 'x' })
  // A gateway that starts all the same would not end.
  void greeted.then(stop)
  const { code, stderr } = await finish()
  t.equal(code, 78)
  t.match(stderr, /^TOLLGATE_PLAIN: there is no x\. Write all, or some of .*\n$/)
})

t.test('says where it listens, serves, and ends with 0 when told to stop', async (t) => {
  const redis = await startRedis(t)
  const yaml = `${ports}${model}redis: unix://${redis.socket}\n`
  const file = `${t.testdir({ 'gateway.yaml': yaml })}/gateway.yaml`
  const { greeted, stop, finish } = startWith(file)
  const said = await greeted
  const [, url = '', adminUrl = ''] = /listening on (\S+), admin on (\S+)\n/.exec(said) ?? []
  t.equal((await fetch(`${url}/v1/models`)).status, 401)
  t.equal((await fetch(`${adminUrl}/readyz`)).status, 200)
  t.notMatch(said, /tg_live_/, 'beside a Redis of its own there is no money to hand out')
  for (const command of [
    'accounts create NAME',
    'topup NAME 1000000',
    'keys create --account NAME',
  ])
    t.ok(said.includes(`${command} --config ${file}\n`), `but it says: ${command}`)
  stop()
  t.match(await finish(), { code: 0, stdout: '' })
  await t.rejects(fetch(url))
})

t.test('a second gateway on one data folder says so and stops', async (t) => {
  const first = await startGateway(t, { yaml: model })
  const yaml = `${ports}${model}data: ${first.dataDir}\nredis: unix://${first.redis.socket}\n`
  const file = `${t.testdir({ 'gateway.yaml': yaml })}/gateway.yaml`
  const { code, stdout, stderr } = await startWith(file).finish()
  t.equal(code, 1)
  t.equal(stdout, '')
  t.match(stderr, /^tollgate: another gateway uses the data folder \S+\. Stop it, or set another/)
  t.equal((await fetch(`${first.adminUrl}/readyz`)).status, 200, 'the first one lives on')
})

t.test('a port in use is reported with what to do', async (t) => {
  const first = await startGateway(t, { yaml: model })
  const taken = `listen: { host: 127.0.0.1, port: ${new URL(first.url).port} }\n`
  const yaml = `${ports.replace(/listen: .*\n/, taken)}${model}redis: unix://${first.redis.socket}\n`
  const file = `${t.testdir({ 'gateway.yaml': yaml })}/gateway.yaml`
  const { code, stderr } = await startWith(file).finish()
  t.equal(code, 1)
  t.match(stderr, /^tollgate: .*EADDRINUSE.*set another port in gateway\.yaml\.\n$/)
})

t.test('a full disk is reported with what to do', async (t) => {
  const redis = await startRedis(t)
  const zod = import.meta.resolve('zod')
  const file = t.testdir({
    'full.mjs': `
      import { z } from '${zod}'
      const error = Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC' })
      export const plugin = { name: 'full', schema: z.strictObject({}), setup: () => Promise.reject(error) }
    `,
    'gateway.yaml': `${ports}${model}redis: unix://${redis.socket}\nplugins: { ./full.mjs: {} }\n`,
  })
  const { code, stderr } = await startWith(`${file}/gateway.yaml`).finish()
  t.equal(code, 1)
  t.match(stderr, /^tollgate: ENOSPC: no space left\. The disk of the data folder is full: .*\.\n$/)
})

for (const hook of ['setup', 'close']) {
  t.test(`what a plugin says of its failure in ${hook} is told without secrets`, async (t) => {
    const redis = await startRedis(t)
    const dir = t.testdir({
      'talks.mjs': `
        import { z } from '${import.meta.resolve('zod')}'
        const setup = async ({ config }) => {
          const fail = async () => {
            throw new Error('sent ' + config.models.get('m').targets[0].key)
          }
          return '${hook}' === 'setup' ? fail() : { close: fail }
        }
        export const plugin = { name: 'talks', schema: z.strictObject({}), setup }
      `,
      'gateway.yaml': `${ports}redis: unix://${redis.socket}\nplugins: { ./talks.mjs: {} }
models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1', key: sk-secret-1 }] } }\n`,
    })
    const { stop, finish } = startWith(`${dir}/gateway.yaml`)
    stop()
    const { code, stderr } = await finish()
    t.equal(code, 1)
    t.match(stderr, /^tollgate: sent \*\*\*\n$/m)
  })
}

// The product would search again for each gateway, and on a bare machine download it each time.
process.env['REDIS_SERVER'] ??= await redisServerPath()

const demo = 'models: { toy: { targets: [demo] } }'

const startDemo = (t: Test, setup: Partial<GatewaySetup> = {}) =>
  startGateway(t, { yaml: demo, redisUrl: 'embedded', ...setup })

async function accountsOf({ gateway }: Awaited<ReturnType<typeof startDemo>>) {
  return (await gateway.accounts.listAccounts({ limit: 10, order: 'asc' })).data
}

t.test('the first start makes an account with a million tokens and a key that works', async (t) => {
  const one = await startDemo(t)
  const made = await ensureDemo(one.gateway)
  t.equal(made?.model, 'toy')
  t.match(await accountsOf(one), [{ name: 'demo' }])
  const key = made?.key ?? ''
  const balance = await one.call('/api/billing/balance', key)
  t.match(await balance.json(), { granted: 1_000_000, available: 1_000_000 })
  const messages = [{ role: 'user', content: 'Hi' }]
  t.equal((await one.call('/v1/chat', key, { model: 'toy', messages })).status, 200)
})

t.test('the second start makes nothing, nor does one that finds other accounts', async (t) => {
  const first = await startDemo(t)
  t.ok(await ensureDemo(first.gateway))
  t.equal(await ensureDemo(first.gateway), undefined)
  await first.close()
  const second = await startDemo(t, { dataDir: first.dataDir })
  t.equal(await ensureDemo(second.gateway), undefined)
  t.equal((await accountsOf(second)).length, 1)

  const other = await startDemo(t)
  await other.account(0)
  t.equal(await ensureDemo(other.gateway), undefined)
})

t.test('beside a Redis that is not its own, it makes no account', async (t) => {
  const one = await startGateway(t, { yaml: demo })
  t.equal(await ensureDemo(one.gateway), undefined)
  t.same(await accountsOf(one), [])
})

t.test('without the built-in model, it makes no account', async (t) => {
  const one = await startDemo(t, { yaml: model })
  t.equal(await ensureDemo(one.gateway), undefined)
  t.same(await accountsOf(one), [])
})
