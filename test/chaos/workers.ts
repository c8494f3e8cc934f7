// A gateway of several processes: any of them may be killed, all of them reload and drain together, and the money adds up.

import t from 'tap'
import type { Test } from 'tap'
import { isRunning } from '../../src/data/lock.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat, endless } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import { metricOf } from '../fixtures/metric.ts'
import { Reading, ask, balanceOf, differencesOf, outputOnly } from '../fixtures/money.ts'
import { childrenOf } from '../fixtures/process.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'
import { askAnew, spread, workersReady } from '../fixtures/workers.ts'

const yamlFor = (url: string, more = '') =>
  `${outputOnly(url)}workers: 2\nplugins: { metering: { lease: 2s } }\n${more}`

t.test('both serve, and the supervisor tells of both', async (t) => {
  const backend = await startBackend(t)
  const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url) })
  const account = await gateway.account(1_000_000)
  t.equal(await workersReady(gateway), '2 of 2')
  const { length: count } = await spread(gateway, account.key)
  const chats = 'tollgate_http_requests_total{route="/v1/chat/completions"'
  t.equal(await metricOf(gateway, chats), count)
  t.equal(await metricOf(gateway, 'tollgate_redis_up'), 1)
  t.equal(await metricOf(gateway, 'tollgate_build_info'), 1)
  t.match(await balanceOf(gateway, account), { spent: backend.served.completion })
  t.equal(await gateway.stop(), 0)
})

t.test(
  'a worker that is killed loses its own streams alone, and another takes its place',
  async (t) => {
    const backend = await startBackend(t, endless({ gapMs: 5 }))
    const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url) })
    const account = await gateway.account(1_000_000)
    const before = await childrenOf(gateway.pid)
    t.equal(before.length, 2)
    const readings = await Promise.all(
      Array.from({ length: 12 }, async () => {
        const reading = new Reading(await gateway.call('/v1/chat', account.key, ask(100_000, true)))
        await reading.until('w1 ')
        return reading
      }),
    )
    process.kill(Number(before[0]), 'SIGKILL')
    await gateway.said(/a worker has ended/)
    await until(async () => (await workersReady(gateway)) === '2 of 2')
    t.equal((await childrenOf(gateway.pid)).length, 2)
    backend.on(chat())
    const ended = readings.map((reading) => {
      const goesOn = reading.until('w400 ').then(() => false)
      return Promise.race([reading.end(), goesOn]).then(Boolean, () => true)
    })
    const cut = (await Promise.all(ended)).filter(Boolean).length
    t.ok(cut < 12, `${cut} of 12 streams were cut`)
    for (const reading of readings) await reading.cancel().catch(() => undefined)
    await until(async () => (await balanceOf(gateway, account)).reserved === 0)
    t.same(await differencesOf(gateway), [])
  },
)

t.test('when the supervisor is killed, the workers and the embedded Redis end', async (t) => {
  const backend = await startBackend(t, endless({ gapMs: 5 }))
  const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url), redisUrl: 'embedded' })
  const account = await gateway.account(1_000_000)
  const reading = new Reading(await gateway.call('/v1/chat', account.key, ask(100_000, true)))
  await reading.until('w1 ')
  const children = await childrenOf(gateway.pid)
  await gateway.kill()
  await until(() => children.every((pid) => !isRunning(pid)))
  await reading.cancel().catch(() => undefined)
  const again = await spawnGateway(t, {
    yaml: yamlFor(backend.url),
    redisUrl: 'embedded',
    dataDir: gateway.dataDir,
  })
  // Redis may have lost its last second; the workers have written what they owe it.
  await until(async () => (await balanceOf(again, account)).spent > 0)
  await until(async () => (await balanceOf(again, account)).reserved === 0)
  t.same(await differencesOf(again), [])
})

t.test('a drain lets the streams of all workers end', async (t) => {
  const gates: Gate[] = []
  const backend = await startBackend(t, (call) => {
    const gate = new Gate()
    gates.push(gate)
    gate.next(3)
    return chat({ chunks: 4, gate })(call)
  })
  const redis = await startRedis(t)
  const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url), redis })
  const witness = await spawnGateway(t, { yaml: yamlFor(backend.url), redis })
  const account = await gateway.account(1000)
  const readings = await Promise.all(
    Array.from({ length: 6 }, async () => {
      return new Reading(await gateway.call('/v1/chat', account.key, ask(10, true)))
    }),
  )
  const stopped = gateway.stop()
  await gateway.said(/"draining"/)
  for (const gate of gates) gate.open()
  for (const reading of readings) t.match(await reading.end(), /\[DONE\]/)
  t.equal(await stopped, 0)
  t.match(await balanceOf(witness, account), { spent: 24, reserved: 0 })
})

async function reloaded(t: Test) {
  const backend = await startBackend(t)
  const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url, 'reload: signal\n') })
  return { backend, gateway, account: await gateway.account(1_000_000) }
}

t.test(
  'a reload is taken by all, a bad file by none, and a new worker has the last good one',
  async (t) => {
    const { backend, gateway, account } = await reloaded(t)
    const dearer = yamlFor(backend.url, 'reload: signal\n').replace('output: 1', 'output: 3')
    await gateway.rewrite(`${dearer}drian: 1\n`)
    t.equal((await gateway.admin('POST', 'reload')).status, 422)
    await spread(gateway, account.key)
    const served = backend.served.completion
    t.match(await balanceOf(gateway, account), { spent: served })
    await gateway.rewrite(dearer)
    t.equal((await gateway.admin('POST', 'reload')).status, 200)
    await gateway.rewrite(`${dearer}drian: 1\n`)
    const [first] = await childrenOf(gateway.pid)
    process.kill(Number(first), 'SIGKILL')
    await gateway.said(/a worker has ended/)
    await until(async () => (await workersReady(gateway)) === '2 of 2')
    await spread(gateway, account.key)
    await spread(gateway, account.key)
    const later = backend.served.completion - served
    t.match(await balanceOf(gateway, account), { spent: served + 3 * later })
  },
)

t.test('all workers together ask a target no more than max_concurrency says', async (t) => {
  const gate = new Gate()
  let under = 0
  const backend = await startBackend(t, async (call) => {
    under++
    call.res.once('close', () => under--)
    await gate.wait()
    await chat()(call)
  })
  const bounded = (most: number) =>
    outputOnly(backend.url)
      .replace('targets', `max_concurrency: ${most}, queue: { wait: 60s }, targets`)
      .concat('workers: 3\nreload: signal\n')
  const gateway = await spawnGateway(t, { yaml: bounded(3) })
  const account = await gateway.account(1_000_000)
  const answers = Array.from({ length: 24 }, () => askAnew(gateway, account.key))
  const known = async () => {
    const list = (await (await gateway.admin('GET', 'targets')).json()) as {
      data: { queue: number; targets: { open: number }[] }[]
    }
    const { queue = 0, targets = [] } = list.data[0] ?? {}
    return { queue, open: targets[0]?.open ?? 0 }
  }
  await until(async () => {
    const { open, queue } = await known()
    return open + queue === 24 && open === under
  })
  t.ok(under <= 3, `${under} of 3`)
  await gateway.rewrite(bounded(6))
  t.equal((await gateway.admin('POST', 'reload')).status, 200)
  await until(async () => under > 3 && (await known()).open === under)
  t.ok(under <= 6, `${under} of 6`)
  gate.open()
  for (const answer of await Promise.all(answers)) {
    t.equal(answer.status, 200)
    await answer.text()
  }
})
