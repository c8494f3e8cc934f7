// Targets that are checked: who is asked, what operators see, and that nothing of it is left.

import t from 'tap'
import type { Test } from 'tap'
import type { Script } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { failing, json, silent } from '../fixtures/backend-scripts.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import { startBackend } from '../fixtures/backend.ts'
import { targetsPath } from '../fixtures/targets-path.ts'
import type { TargetsPathOptions } from '../fixtures/targets-path.ts'
import { soon, until } from '../fixtures/until.ts'

const fast = 'health_check: { interval: 10ms, fails: 2, passes: 2 }'
const unlimited = 'plans: { default: { requests_per_minute: 100000 } }'

/** `check` answers the checks, `answer` all others. */
const split =
  (check: Script, answer: Script = chat()): Script =>
  (call) =>
    (call.req.method === 'GET' ? check : answer)(call)

const well = json({ status: 'ok' })

async function world(t: Test, options: TargetsPathOptions = {}) {
  const keys = (i: number) => `priority: ${i + 1}, ${fast}`
  const path = await targetsPath(t, { keys, yaml: unlimited, ...options })
  for (const backend of path.backends) backend.on(split(well))
  const shows = (wanted: string) => until(async () => (await path.states()).join() === wanted)
  /** Requests, without the checks. */
  const asked = () =>
    path.backends.map(({ requests }) => requests.filter(({ method }) => method === 'POST').length)
  return { ...path, shows, asked }
}

t.test('a target that fails its checks is not asked, until it passes them again', async (t) => {
  const { backends, gate, ask, asked, shows, up } = await world(t)
  await shows('up,up')
  backends[0]?.on(split(failing(500)))
  await shows('unhealthy,up')
  t.strictSame(await up(), [0, 1])
  for (let i = 0; i < 5; i++) t.equal((await ask()).status, 200)
  t.strictSame(asked(), [0, 5])
  backends[0]?.on(split(well))
  await shows('up,up')
  t.strictSame(await up(), [1, 1])
  t.equal((await ask()).status, 200)
  t.strictSame(asked(), [1, 5])
  const told = gate.log.filter((line) => line.includes('health checks'))
  t.equal(told.length, 2)
})

t.test('a reload begins and ends checks, and the end of the gateway ends them', async (t) => {
  const { backends, gate } = await world(t, { count: 1, keys: () => 'weight: 1' })
  const [backend] = backends
  if (!backend) throw new Error('no backend')
  backend.on(split(silent))
  const yamlWith = (keys: string) =>
    `models: { m: { targets: [{ url: '${backend.url}', ${keys} }] } }\n`
  await gate.rewrite(yamlWith(fast))
  await gate.gateway.reload('test')
  const first = await backend.request(0)
  t.match(first, { method: 'GET', path: '/health' })
  await gate.rewrite(yamlWith('weight: 2'))
  await gate.gateway.reload('test')
  t.ok(await soon(first.closed))
  await gate.rewrite(yamlWith(fast))
  await gate.gateway.reload('test')
  const second = await backend.request(1)
  await gate.close()
  t.ok(await soon(second.closed))
  await until(() => backend.open === 0)
  t.equal(backend.requests.length, 2)
})

t.test('each worker checks for itself, and their supervisor sums it up', async (t) => {
  const backend = await startBackend(t, split(failing(500)))
  const yaml = `workers: 2\nmodels: { m: { targets: [{ url: '${backend.url}', ${fast} }] } }\n`
  const gateway = await spawnGateway(t, { yaml })
  const told = () =>
    gateway.log.filter((line) => line.includes('fails its health checks')).map(workerOf)
  await until(() => told().length === 2)
  t.strictSame(told().toSorted(), [1, 2], 'and not the supervisor')
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  t.match(metrics, 'target_up{model="m",target="1"} 0')
  t.equal(await gateway.stop(), 0)
  t.equal(backend.open, 0)
})

function workerOf(line: string): unknown {
  return (JSON.parse(line) as { worker?: unknown }).worker
}
