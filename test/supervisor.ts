// What workers do when processes are killed: test/chaos/workers.ts.

import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startCommand } from '../scripts/start-command.ts'
import { startBackend } from './fixtures/backend.ts'
import { chat } from './fixtures/backend-model.ts'
import { Gate } from './fixtures/gate.ts'
import { adminToken, spawnGateway } from './fixtures/gateway.ts'
import { connectLink } from './fixtures/ledger.ts'
import { Reading, ask } from './fixtures/money.ts'
import { runProcess } from './fixtures/process.ts'
import { rawClient } from './fixtures/raw-http.ts'
import { startRedis } from './fixtures/redis-server.ts'
import { tempDir } from './fixtures/temp-dir.ts'
import { until } from './fixtures/until.ts'
import { askAnew, workersReady } from './fixtures/workers.ts'

t.test('workers that can never start end the gateway, with the reason', async (t) => {
  const redis = await startRedis(t)
  const dir = await tempDir(t)
  const file = join(dir, 'gateway.yaml')
  const plugin = `
    import { z } from 'tollgate/plugin'
    const setup = () => {
      if (process.env.TOLLGATE_WORKER) throw new Error('not in a worker')
      return {}
    }
    export const plugin = { name: 'fails', schema: z.strictObject({}), setup }
  `
  await writeFile(join(dir, 'fails.ts'), plugin)
  await writeFile(
    file,
    `
listen: { host: 127.0.0.1, port: 0 }
admin: { listen: { host: 127.0.0.1, port: 0 } }
redis: unix://${redis.socket}
workers: 2
models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }
plugins: { ./fails.ts: {} }
`,
  )
  const { code, err } = await runProcess(t, [...startCommand(), '--config', file])
  t.equal(code, 1)
  t.match(err, /tollgate: worker 1: not in a worker/)
})

t.test(
  'what workers say on stderr comes out there, and many of them leave no warning',
  async (t) => {
    const file = join(await tempDir(t), 'says.ts')
    const plugin = `
    import { z } from 'tollgate/plugin'
    const setup = () => {
      if (process.env.TOLLGATE_WORKER) process.stderr.write('said by ' + process.pid + '\\n')
      return {}
    }
    export const plugin = { name: 'says', schema: z.strictObject({}), setup }
  `
    await writeFile(file, plugin)
    const models = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"
    const yaml = `workers: 11\n${models}\nplugins: { ${file}: {} }\n`
    const gateway = await spawnGateway(t, { yaml, env: { NODE_NO_WARNINGS: '' } })
    const [said, warned] = [/^said by \d+$/, /warning/i].map((text) =>
      gateway.log.filter((line) => text.test(line)),
    )
    t.equal(said?.length, 11)
    t.same(warned, [])
    t.equal(await gateway.stop(), 0)
  },
)

/** A plugin that fails to close in a worker. */
const unclosed = (name: string) => `
  import { z } from 'tollgate/plugin'
  const close = async () => {
    if (process.env.TOLLGATE_WORKER) throw new Error('${name} is stuck')
  }
  export const plugin = { name: '${name}', schema: z.strictObject({}), setup: () => ({ close }) }
`

t.test('what fails in a worker at the end is in its log and in the exit code', async (t) => {
  const dir = await tempDir(t)
  for (const name of ['one', 'two']) {
    await writeFile(join(dir, `${name}.ts`), unclosed(name))
  }
  const models = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"
  const own = `plugins: { ${dir}/one.ts: {}, ${dir}/two.ts: {} }`
  const gateway = await spawnGateway(t, { yaml: `workers: 2\n${models}\n${own}\n` })
  const all = once(gateway.child, 'close')
  t.equal(await gateway.stop(), 1)
  await all
  const told = gateway.stdout.filter((line) => line.includes('a plugin did not close'))
  t.same(told.map((line) => (JSON.parse(line) as { worker: number }).worker).toSorted(), [1, 2])
  const why = gateway.log.filter((line) => line.startsWith('tollgate: worker'))
  const ofEach = [1, 2].map((number) => `worker ${number}: two is stuck; one is stuck`)
  t.strictSame(why, [`tollgate: ${ofEach.join('; ')}`])
})

t.test('a request to the admin port does not keep the supervisor for another drain', async (t) => {
  const models = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"
  const gateway = await spawnGateway(t, {
    yaml: `workers: 2\ndrain: 1h\nlimits: { json_body: 1h }\n${models}\n`,
  })
  const client = await rawClient(t, Number(new URL(gateway.adminUrl).port))
  const token = `Authorization: Bearer ${adminToken}`
  const fields = `Host: localhost\r\n${token}\r\nContent-Type: application/json\r\nContent-Length: 9`
  client.send(`POST /admin/accounts HTTP/1.1\r\n${fields}\r\nExpect: 100-continue\r\n\r\n`)
  await client.text('100 Continue\r\n\r\n')
  t.equal(await gateway.stop(), 0)
})

t.test('a key that only a stream still uses is masked on stderr, too', async (t) => {
  const gate = new Gate()
  const backend = await startBackend(t, chat({ chunks: 3, gate }))
  const own = join(await tempDir(t), 'own.ts')
  await writeFile(
    own,
    `import { z } from 'tollgate/plugin'
    const ending = Promise.withResolvers()
    const setup = ({ config }) => ({
      async close() {
        const { key } = config.models.get('m').targets[0]
        if (key !== 'first-secret') return ending.resolve()
        if (!process.env.TOLLGATE_WORKER) return
        await ending.promise
        throw new Error(key + ' is stuck')
      },
    })
    export const plugin = { name: 'own', schema: z.strictObject({}), setup }`,
  )
  const yaml = (key: string) =>
    `workers: 2\nmodels: { m: { targets: [{ url: '${backend.url}', key: ${key} }] } }\nplugins: { ${own}: {} }\n`
  const gateway = await spawnGateway(t, { yaml: yaml('first-secret') })
  const { key } = await gateway.account(1000)
  gate.next(2)
  const reading = new Reading(await gateway.call('/v1/chat', key, ask(10, true)))
  await reading.until('w0 ')
  await gateway.rewrite(yaml('second-secret'))
  t.equal((await gateway.admin('POST', 'reload')).status, 200)
  const stopped = gateway.stop()
  // Until both workers drain: then the old configuration, when its stream ends, is closed with the new one. Eight requests
  // reach both.
  const headers = { authorization: `Bearer ${key}`, connection: 'close' }
  const isServed = () =>
    fetch(`${gateway.url}/v1/models`, { headers }).then(
      ({ ok }) => ok,
      () => false,
    )
  const served = () => Promise.all(Array.from({ length: 8 }, isServed))
  await until(async () => !(await served()).includes(true))
  gate.open()
  t.match(await reading.end(), /\[DONE\]/)
  t.equal(await stopped, 1)
  await until(() => gateway.log.some((line) => /^tollgate: worker .* is stuck/.test(line)))
  t.notMatch(gateway.log.join('\n'), /first-secret/)
  t.notMatch(gateway.stdout.join('\n'), /first-secret/)
})

t.test('workers find what the supervisor has compiled', async (t) => {
  const cache = await tempDir(t)
  const yaml = `workers: 2\nmodels: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\n`
  const env = { NODE_COMPILE_CACHE: cache }
  const gateway = await spawnGateway(t, { yaml, env })
  const [version = ''] = await readdir(cache)
  const compiled = await readdir(join(cache, version))
  t.ok(compiled.length > 100)
  t.equal(await gateway.stop(), 0)
  t.same(await readdir(join(cache, version)), compiled, 'and compile nothing themselves')
})

t.test('/readyz says why Redis refuses the workers', async (t) => {
  const redis = await startRedis(t)
  const yaml = `workers: 2\nmodels: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\n`
  const gateway = await spawnGateway(t, { redis, yaml })
  const { key } = await gateway.account(1000)
  const ready = async () => (await fetch(`${gateway.adminUrl}/readyz`)).json()
  t.match(await ready(), { status: 'ready', redis: 'ok', workers: '2 of 2' })
  const { client } = await connectLink(t, redis.socket)
  await client.config('SET', 'maxmemory', '1')
  await until(async () => {
    t.equal((await askAnew(gateway, key)).status, 503)
    return (await workersReady(gateway)) === '0 of 2'
  })
  t.match(await ready(), { status: 'not ready', redis: 'refuses to write (OOM)' })
  await client.config('SET', 'maxmemory', '0')
  await until(async () => (await workersReady(gateway)) === '2 of 2')
  t.match(await ready(), { status: 'ready', redis: 'ok' })
})

t.test('a port that another program has is no port to share', async (t) => {
  const redis = await startRedis(t)
  const other = createServer().listen({ host: '127.0.0.1', port: 0, reusePort: true })
  t.teardown(() => other.close())
  await once(other, 'listening')
  const { port } = other.address() as AddressInfo
  const file = join(await tempDir(t), 'gateway.yaml')
  await writeFile(
    file,
    `
listen: { host: 127.0.0.1, port: ${port} }
admin: { listen: { host: 127.0.0.1, port: 0 } }
redis: unix://${redis.socket}
workers: 2
models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }
`,
  )
  const { code, err } = await runProcess(t, [...startCommand(), '--config', file])
  t.equal(code, 1)
  t.match(err, /EADDRINUSE.*set another port/)
})
