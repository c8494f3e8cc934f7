// Alerts on the process: each is caused on a real gateway, and fires from what its /metrics said before and after.

import { connect } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { failing } from '../fixtures/backend-scripts.ts'
import { noFullDisk } from '../fixtures/full-disk.ts'
import { spawnGateway, startGateway } from '../fixtures/gateway.ts'
import type { TestGateway } from '../fixtures/gateway.ts'
import { metricOf } from '../fixtures/metric.ts'
import { ask, outputOnly } from '../fixtures/money.ts'
import { childrenOf } from '../fixtures/process.ts'
import { ensurePrometheus } from '../fixtures/prometheus.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { fires, scrape } from '../fixtures/scrapes.ts'
import type { Scrape } from '../fixtures/scrapes.ts'
import { spy } from '../fixtures/spy.ts'
import { standStill } from '../fixtures/stand-still.ts'
import { until } from '../fixtures/until.ts'
import { workersReady } from '../fixtures/workers.ts'

await ensurePrometheus()
const needsLimit = { skip: noFullDisk }
const nowhere = outputOnly('http://127.0.0.1:1/v1')

t.test('TollgateDown: Prometheus has no gateway in its list', async (t) => {
  const gateway = await startGateway(t, { yaml: nowhere })
  await fires(t, 'TollgateDown', { before: await scrape(gateway), after: [new Map()], within: 7 })
})

t.test('TollgateErrors: a backend fails', async (t) => {
  const backend = await startBackend(t)
  const gateway = await startGateway(t, { yaml: outputOnly(backend.url) })
  const { key } = await gateway.account(1_000_000)
  const work = async () => {
    for (let i = 0; i < 10; i++) await (await gateway.call('/v1/chat', key, ask(5, false))).text()
  }
  await work()
  const before = await scrape(gateway)
  backend.on(failing(500))
  await work()
  const after = [await scrape(gateway)]
  await fires(t, 'TollgateErrors', { before, after, goesOn: true, within: 11 })
})

const descriptors = 256

/** Idle connections, until a process has nine tenths of its file descriptors open. With all, it could not be scraped. */
async function openMany(t: Test, gateway: TestGateway, workers: number): Promise<void> {
  const open = () => metricOf(gateway, 'process_open_fds')
  const wanted = descriptors * 0.9
  const count = workers * (wanted - (await open()))
  const { hostname, port } = new URL(gateway.url)
  const sockets = Array.from({ length: count }, () => connect(Number(port), hostname))
  t.teardown(() => sockets.forEach((socket) => socket.destroy()))
  await until(async () => (await open()) > descriptors * 0.85)
}

/** Prometheus' times of a start have whole seconds: two starts within one look like one. */
const startedAt = (one: Scrape) =>
  [...one].find(([series]) => series.startsWith('process_start_time_seconds'))?.[1]

/** Scrapes after three starts, each of a time of its own. */
async function restarted(first: Scrape, again: () => Promise<Scrape>): Promise<Scrape[]> {
  const scrapes = [first]
  for (let tries = 0; tries < 8 && scrapes.length < 4; tries++) {
    const now = await again()
    if (scrapes.every((one) => startedAt(one) !== startedAt(now))) scrapes.push(now)
  }
  return scrapes.slice(1)
}

const limited = { under: ['prlimit', `--nofile=${descriptors}:${descriptors}`] }

t.test('a process without descriptors, log, and then killed and killed', needsLimit, async (t) => {
  const redis = await startRedis(t)
  const setup = { yaml: nowhere, redis, ...limited }
  const gateway = await spawnGateway(t, setup)
  const before = await scrape(gateway)
  const logSome = (lines: number) =>
    Promise.all(
      Array.from({ length: lines }, async () =>
        (await gateway.call('/v1/models', 'nobody')).text(),
      ),
    )
  gateway.child.stdout?.pause()
  await until(async () => {
    await logSome(50)
    return (await metricOf(gateway, 'tollgate_log_waiting_bytes')) > 0
  })
  await fires(t, 'TollgateLogNotRead', { before, after: [await scrape(gateway)], within: 6 })
  gateway.child.stdout?.resume()

  await openMany(t, gateway, 1)
  await fires(t, 'TollgateFewFiles', { before, after: [await scrape(gateway)], within: 6 })

  gateway.child.stdout?.destroy()
  await until(async () => {
    await logSome(1)
    return (await metricOf(gateway, 'tollgate_log_lines_dropped_total')) > 0
  })
  await fires(t, 'TollgateLogDropped', { before, after: [await scrape(gateway)], within: 1 })

  await gateway.kill()
  await fires(t, 'TollgateDown', { before, after: [await scrape(gateway)], within: 2 })
  const after = await restarted(before, async () => {
    const next = await spawnGateway(t, setup)
    const now = await scrape(next)
    await next.kill()
    return now
  })
  await fires(t, 'TollgateRestarts', { before, after, within: 4 })
})

t.test('workers without descriptors, and then killed and killed', needsLimit, async (t) => {
  const gateway = await spawnGateway(t, { yaml: `${nowhere}workers: 2\n`, ...limited })
  const before = await scrape(gateway)
  const after = await restarted(before, async () => {
    const [child = 0] = await childrenOf(gateway.pid)
    process.kill(child, 'SIGKILL')
    await until(async () => !(await childrenOf(gateway.pid)).includes(child))
    await until(async () => (await workersReady(gateway)) === '2 of 2')
    return await scrape(gateway)
  })
  await fires(t, 'TollgateRestarts', { before, after, within: 4 })
  await openMany(t, gateway, 2)
  await fires(t, 'TollgateFewFiles', { before, after: [await scrape(gateway)], within: 6 })
})

t.test('TollgateBusy: the process stands still for 300 ms at a time', async (t) => {
  const gateway = await startGateway(t, { yaml: nowhere })
  await until(async () => (await metricOf(gateway, 'nodejs_eventloop_lag_p99_seconds')) < 0.2)
  const before = await scrape(gateway)
  let times = 0
  await until(() => {
    standStill(300)
    return ++times === 4
  })
  await fires(t, 'TollgateBusy', { before, after: [await scrape(gateway)], within: 11 })
})

t.test('TollgateReloadRefused: gateway.yaml has a problem', async (t) => {
  const gateway = await startGateway(t, { yaml: nowhere })
  const before = await scrape(gateway)
  await gateway.rewrite('models: { }')
  t.equal((await gateway.admin('POST', 'reload')).status, 422)
  await fires(t, 'TollgateReloadRefused', { before, after: [await scrape(gateway)], within: 6 })
})

t.test('TollgateHookFails: a plugin throws when a request is over', async (t) => {
  const fails = spy(() => ({
    done() {
      throw new Error('on purpose')
    },
  }))
  const gateway = await startGateway(t, { yaml: nowhere, ownPlugins: [fails] })
  const before = await scrape(gateway)
  await (await gateway.call('/v1/models', 'nobody')).text()
  await fires(t, 'TollgateHookFails', { before, after: [await scrape(gateway)], within: 1 })
})
