// Workers and their supervisor at bad moments: a reload, a kill or a hang while a worker starts, while all drain, while
// one does not answer. No worker serves another configuration than the others, and none is left without a supervisor.

import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { isRunning } from '../../src/data/lock.ts'
import { startBackend } from '../fixtures/backend.ts'
import { endless } from '../fixtures/backend-model.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { metricOf } from '../fixtures/metric.ts'
import { Reading, ask, balanceOf, outputOnly } from '../fixtures/money.ts'
import { childrenOf } from '../fixtures/process.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'
import { spread, workersReady } from '../fixtures/workers.ts'

const yamlFor = (url: string, more = '') => `${outputOnly(url)}workers: 2\nreload: signal\n${more}`

/** Whether this user may serve port 80. */
const mayServe80 = await (async () => {
  const server = createServer().listen({ host: '127.0.0.1', port: 80 })
  const isFree = await once(server, 'listening').then(Boolean, () => false)
  server.close()
  return isFree
})()
const skip = mayServe80 ? false : 'port 80 is not free for this user'

t.test('all workers serve a port that URLs leave out', { skip }, async (t) => {
  const backend = await startBackend(t)
  const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url), port: 80 })
  const account = await gateway.account(1_000_000)
  t.same(new Set(await spread(gateway, account.key)), new Set([200]))
})

async function killOne(gateway: OwnProcess): Promise<void> {
  const [first] = await childrenOf(gateway.pid)
  process.kill(Number(first), 'SIGKILL')
  await gateway.said(/a worker has ended/)
}

const bothReady = (gateway: OwnProcess) =>
  until(async () => (await workersReady(gateway)) === '2 of 2')

/** A gateway whose workers wait at their start for as long as there is a file `hold`. */
async function held(t: Test) {
  const dir = await tempDir(t)
  const [hold, isHeld, file] = [join(dir, 'hold'), join(dir, 'held'), join(dir, 'held.ts')]
  const plugin = `
    import { existsSync, writeFileSync } from 'node:fs'
    import { setTimeout as pause } from 'node:timers/promises'
    import { z } from 'tollgate/plugin'
    let isFirst = true
    const setup = async () => {
      const waits = isFirst && process.env.TOLLGATE_WORKER && existsSync('${hold}')
      isFirst = false
      if (waits) writeFileSync('${isHeld}', '')
      while (waits && existsSync('${hold}')) await pause(10)
      return {}
    }
    export const plugin = { name: 'held', schema: z.strictObject({}), setup }
  `
  await writeFile(file, plugin)
  const backend = await startBackend(t)
  const yaml = yamlFor(backend.url, `plugins: { ${file}: {} }\n`)
  const gateway = await spawnGateway(t, { yaml })
  return {
    backend,
    gateway,
    yaml,
    /** A worker that starts again waits from now on. */
    async holdOne() {
      await writeFile(hold, '')
      await killOne(gateway)
      await until(() => existsSync(isHeld))
    },
    letGo: () => rm(hold),
  }
}

t.test('a worker that starts again has what the others have', async (t) => {
  const backend = await startBackend(t)
  const plugin = join(await tempDir(t), 'mine.ts')
  const code = `
    import { z } from 'tollgate/plugin'
    export const plugin = { name: 'mine', schema: z.strictObject({}), setup: () => ({}) }
  `
  await writeFile(plugin, code)
  const yaml = yamlFor(backend.url, `plugins: { ${plugin}: {} }\n`)
  const gateway = await spawnGateway(t, { yaml })
  const account = await gateway.account(1_000_000)
  const other = await startRedis(t)
  const text = (await readFile(gateway.file, 'utf8')).replace(/^plugins: .*$/m, '')
  await rm(plugin)
  // The plugin goes, the price is another, and the new Redis waits for a restart.
  const moved = text.replace(/^redis: .*$/m, `redis: unix://${other.socket}`)
  const dearer = moved.replace('output: 1', 'output: 3')
  await writeFile(gateway.file, dearer.replace('workers: 2', 'workers: 1'))
  const answer = await gateway.admin('POST', 'reload')
  const { changes } = (await answer.json()) as { changes: readonly { path: string }[] }
  const paths = changes.map(({ path }) => path).toSorted()
  t.same(paths, ['models.m.price.output', `plugins["${plugin}"]`, 'redis', 'workers'])
  await killOne(gateway)
  await bothReady(gateway)
  const statuses = await spread(gateway, account.key)
  t.same(new Set(statuses), new Set([200]))
  t.match(await balanceOf(gateway, account), { spent: 3 * backend.served.completion })
  await writeFile(gateway.file, moved.replace('output: 1', 'output: 5'))
  t.equal((await gateway.admin('POST', 'reload')).status, 200)
  const before = { ...(await balanceOf(gateway, account)), served: backend.served.completion }
  await spread(gateway, account.key)
  const { spent } = await balanceOf(gateway, account)
  t.equal(spent - before.spent, 5 * (backend.served.completion - before.served))
})

t.test('a worker that starts during a reload has the new configuration', async (t) => {
  const { backend, gateway, yaml, holdOne, letGo } = await held(t)
  const account = await gateway.account(1_000_000)
  await holdOne()
  await gateway.rewrite(yaml.replace('output: 1', 'output: 3'))
  t.equal((await gateway.admin('POST', 'reload')).status, 200)
  await letGo()
  await bothReady(gateway)
  await spread(gateway, account.key)
  t.match(await balanceOf(gateway, account), { spent: 3 * backend.served.completion })
})

t.test('reloads one soon after the other keep no worker from starting', async (t) => {
  const backend = await startBackend(t)
  const yaml = yamlFor(backend.url)
  const gateway = await spawnGateway(t, { yaml })
  await killOne(gateway)
  const ready: string[] = []
  for (let price = 2; price < 12 && ready.at(-1) !== '2 of 2'; price++) {
    await gateway.rewrite(yaml.replace('output: 1', `output: ${price}`))
    t.equal((await gateway.admin('POST', 'reload')).status, 200)
    ready.push(await workersReady(gateway))
  }
  t.equal(ready.at(-1), '2 of 2')
})

t.test('a worker that starts goes on if a reload changes nothing for it', async (t) => {
  const { gateway, holdOne, letGo } = await held(t)
  await holdOne()
  const children = await childrenOf(gateway.pid)
  t.equal((await gateway.admin('POST', 'reload')).status, 200)
  await letGo()
  await bothReady(gateway)
  t.same(await childrenOf(gateway.pid), children)
})

t.test('when the supervisor is killed, a worker that starts ends, too', async (t) => {
  const { gateway, holdOne, letGo } = await held(t)
  await holdOne()
  const children = await childrenOf(gateway.pid)
  t.teardown(() => endAll(children))
  await gateway.kill()
  await letGo()
  await until(() => children.every((pid) => !isRunning(pid)))
})

t.test(
  'when the supervisor is killed during a drain, the workers do not wait for it',
  async (t) => {
    const backend = await startBackend(t, endless({ gapMs: 5 }))
    const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url, 'drain: 10m\n') })
    const account = await gateway.account(1_000_000)
    const reading = new Reading(await gateway.call('/v1/chat', account.key, ask(100_000, true)))
    await reading.until('w1 ')
    const children = await childrenOf(gateway.pid)
    t.teardown(() => endAll(children))
    process.kill(gateway.pid, 'SIGTERM')
    await gateway.said(/"draining"/)
    // A second signal ends the supervisor at once. Within half a second of the first one, it is the same.
    await until(() => {
      const isOver = !isRunning(gateway.pid)
      if (!isOver) process.kill(gateway.pid, 'SIGTERM')
      return isOver
    })
    t.equal(await gateway.stop(), 1)
    await until(() => children.every((pid) => !isRunning(pid)))
    await reading.cancel().catch(() => undefined)
  },
)

function endAll(pids: readonly number[]): void {
  for (const pid of pids.filter(isRunning)) process.kill(pid, 'SIGKILL')
}

// These two mostly wait, for the 20 s that the supervisor gives a worker for a reload, so they run at once.
t.jobs = 2
const atOnce = { buffered: true }

t.test(
  'a reload that a worker is too slow for ends no worker, and can be repeated',
  atOnce,
  async (t) => {
    const dir = await tempDir(t)
    const hold = join(dir, 'hold')
    // Each ends within the 15 s that a set-up has, and both together take longer than the supervisor waits.
    const plugin = (name: string) => `
    import { existsSync } from 'node:fs'
    import { setTimeout as pause } from 'node:timers/promises'
    import { z } from 'tollgate/plugin'
    const setup = async () => {
      const until = performance.now() + 12_000
      const waits = () => existsSync('${hold}') && performance.now() < until
      while (process.env.TOLLGATE_WORKER && waits()) await pause(10)
      return {}
    }
    export const plugin = { name: '${name}', schema: z.strictObject({}), setup }
  `
    const names = ['slow', 'slow-too']
    const files = names.map((name) => join(dir, `${name}.ts`))
    await Promise.all(names.map((name, i) => writeFile(files[i] ?? '', plugin(name))))
    const backend = await startBackend(t)
    const yaml = yamlFor(
      backend.url,
      `plugins: { ${files.map((file) => `${file}: {}`).join(', ')} }\n`,
    )
    const gateway = await spawnGateway(t, { yaml })
    const account = await gateway.account(1_000_000)
    const children = await childrenOf(gateway.pid)
    await writeFile(hold, '')
    await gateway.rewrite(yaml.replace('output: 1', 'output: 3'))
    t.equal((await gateway.admin('POST', 'reload')).status, 500)
    t.same(await childrenOf(gateway.pid), children)
    await spread(gateway, account.key)
    t.match(await balanceOf(gateway, account), { spent: backend.served.completion })
    await rm(hold)
    t.equal((await gateway.admin('POST', 'reload')).status, 200)
    const { completion } = backend.served
    await spread(gateway, account.key)
    const later = backend.served.completion - completion
    t.match(await balanceOf(gateway, account), { spent: completion + 3 * later })
  },
)

t.test(
  'a worker that hangs is still counted; a reload ends it, and is taken',
  atOnce,
  async (t) => {
    const backend = await startBackend(t)
    const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url) })
    const account = await gateway.account(1_000_000)
    const { length } = await spread(gateway, account.key)
    const chats = 'tollgate_http_requests_total{route="/v1/chat/completions"'
    t.equal(await metricOf(gateway, chats), length)
    const [first] = await childrenOf(gateway.pid)
    process.kill(Number(first), 'SIGSTOP')
    t.equal(await metricOf(gateway, chats), length)
    t.equal(await workersReady(gateway), '1 of 2')
    await gateway.rewrite(yamlFor(backend.url).replace('output: 1', 'output: 3'))
    t.equal((await gateway.admin('POST', 'reload')).status, 200)
    await bothReady(gateway)
    const served = backend.served.completion
    await spread(gateway, account.key)
    const dearer = 3 * (backend.served.completion - served)
    t.match(await balanceOf(gateway, account), { spent: served + dearer })
  },
)
