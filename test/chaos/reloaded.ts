// Reloads while streams and requests run, by the file alone: none fails, none is cut, every token is charged. And a
// thousand reloads leave nothing behind.

import { getActiveResourcesInfo } from 'node:process'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import type { Plugin } from '../../src/plugin.ts'
import { noKeys } from '../../src/config/schema.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { spawnGateway, startGateway } from '../fixtures/gateway.ts'
import type { TestGateway } from '../fixtures/gateway.ts'
import { settledBytes } from '../fixtures/heap.ts'
import { ask, balanceOf, differencesOf } from '../fixtures/money.ts'
import { until } from '../fixtures/until.ts'

const isLong = Boolean(process.env.LONG)
const [rounds, streams, everyMs] = isLong ? [60, 200, 5] : [6, 20, 20]

/** The same money, another configuration: limits, plans, an alias, a plugin's block, the target's weight. */
const variant = (url: string, i: number) =>
  `models:
  m:
    aliases: [nick${i}]
    targets: [{ url: '${url}', weight: ${i + 1}, headers: { x-round: r${i} } }]
    price: { input: 0, output: 1 }
limits: { heartbeat: ${10 + i}s, json_v1: ${2 + (i % 3)}MiB }
plans: { default: { requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: ${1000 + i} } }
plugins: { metering: { min_output_tokens: ${1 + (i % 3)} } }
`

interface Asking {
  readonly key: string
  readonly isOver: () => boolean
  readonly failed: unknown[]
}

async function askOnce({ call }: TestGateway, { key, failed }: Asking, stream: boolean) {
  const answer = await call('/v1/chat', key, ask(20, stream))
  const text = await answer.text()
  const isWhole = stream ? text.includes('[DONE]') : answer.status === 200
  if (!isWhole) failed.push([answer.status, text.slice(0, 500)])
}

/** One stream after the other. */
async function streaming(gateway: TestGateway, asking: Asking): Promise<void> {
  while (!asking.isOver()) {
    await askOnce(gateway, asking, true).catch((error: unknown) => asking.failed.push(error))
  }
}

t.test('under load, a reload fails no request, cuts no stream and loses no token', async (t) => {
  const slow = chat({ chunks: 20 })
  const backend = await startBackend(t, async (call) => {
    if (call.json['stream'] === true) await pause(everyMs)
    await slow(call)
  })
  const gateway = await spawnGateway(t, { yaml: variant(backend.url, 0) })
  const account = await gateway.account(1_000_000_000)
  let isOver = false
  const failed: unknown[] = []
  const asking = { key: account.key, isOver: () => isOver, failed }
  const load = Promise.all(Array.from({ length: streams }, () => streaming(gateway, asking)))
  const requests: Promise<unknown>[] = []
  const ticking = setInterval(() => {
    const asked = askOnce(gateway, asking, false)
    requests.push(asked.catch((error: unknown) => failed.push(error)))
  }, everyMs)
  const taken = () => gateway.log.filter((line) => line.includes('was taken over')).length
  for (let i = 1; i <= rounds; i++) {
    await gateway.rewrite(variant(backend.url, i))
    await until(() => taken() === i)
  }
  isOver = true
  clearInterval(ticking)
  await Promise.all([load, ...requests])
  t.same(failed, [])
  const { spent, reserved } = await balanceOf(gateway, account)
  t.equal(spent, backend.served.completion)
  t.equal(reserved, 0)
  t.same(await differencesOf(gateway), [])
  const seen = new Set(backend.requests.map(({ headers }) => headers['x-round']))
  t.equal(seen.size, rounds + 1, 'each configuration had its turn')
  t.comment(`${backend.requests.length} requests, ${rounds} reloads`)
})

t.test('reloads leave no memory, no timer, no listener, no plugin behind', async (t) => {
  const backend = await startBackend(t)
  const editions: WeakRef<object>[] = []
  let open = 0
  const counting: Plugin = {
    name: 'counting',
    schema: noKeys,
    setup(gateway) {
      editions.push(new WeakRef(gateway))
      open++
      return { close: async () => void open-- }
    },
  }
  const yaml = (i: number) => variant(backend.url, i % 10)
  const running = await startGateway(t, { yaml: yaml(0), ownPlugins: [counting] })
  const { gateway, rewrite } = running
  const { key } = await running.account(1_000_000)
  const reload = async (i: number) => {
    await rewrite(yaml(i))
    await gateway.reload('test')
    if (i % 10 === 0) await (await running.call('/v1/chat', key, ask(5, true))).text()
  }
  const count = isLong ? 1000 : 200
  for (let i = 1; i <= 50; i++) await reload(i)
  const listeners = () =>
    gateway.redis.client.listenerCount('ready') + process.listenerCount('SIGHUP')
  const handles = () => getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = { heap: await settledBytes(), listeners: listeners(), handles: handles() }
  for (let i = 51; i <= 50 + count; i++) await reload(i)
  await until(() => open === 1)
  // Each of them keeps its body.
  const requests = backend.requests as unknown[]
  requests.length = 0
  const grown = (await settledBytes()) - before.heap
  t.comment(`${Math.round(grown / count)} bytes a reload`)
  t.ok(grown < 3 * 2 ** 20 + count * 2000, `${grown} bytes`)
  t.equal(listeners(), before.listeners)
  t.ok(handles() <= before.handles + 2)
  const alive = editions.filter((one) => one.deref() !== undefined).length
  t.ok(alive <= 5, `${alive} configurations are alive`)
})
