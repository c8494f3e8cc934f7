// How a fleet ends. The rest is tested on whole gateways, because a fleet starts this program again as its workers:
// test/chaos/workers.ts, and test/supervisor.ts for workers that do not start.

import cluster from 'node:cluster'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mock } from 'node:test'
import t from 'tap'
import { messageOf } from '../../src/errors.ts'
import { createLog } from '../../src/log.ts'
import { Fleet } from '../../src/workers/fleet.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

t.test('one without workers has no address, asks nobody, and stops at once', async (t) => {
  const log = createLog({ level: 'silent', format: 'json', write: () => undefined })
  const options = {
    count: 1,
    log,
    onEnded: () => undefined,
    taskOf: () => Promise.reject() as never,
  }
  const fleet = new Fleet(options)
  t.equal(fleet.address, '')
  t.same(await fleet.askAll('condition'), [])
  await fleet.stop(1000)
  t.same(fleet.members, [])
})

/** Workers 1 and 3 fail when they have to end, worker 2 hangs. */
const failing = `
  const ask = (id, name, payload, done) => process.send({ id, ask: name, payload }, done)
  let number
  process.on('message', ({ ask: asked, reply, value }) => {
    if (asked === 'drain' && number !== 2) ask(3, 'failed', 'stuck', () => process.exit(1))
    if (reply !== 1) return
    number = value
    ask(2, 'ready', { address: 'a', port: 1 })
  })
  ask(1, 'task')
`

t.test('at its end it tells what failed in each worker, and whom it had to kill', async (t) => {
  const exec = join(await tempDir(t), 'failing.cjs')
  await writeFile(exec, failing)
  cluster.setupPrimary({ exec, args: [], stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  const said: string[] = []
  const log = createLog({ level: 'error', format: 'json', write: (line) => void said.push(line) })
  const taskOf = (number: number) => number as never
  const fleet = new Fleet({ count: 3, log, onEnded: () => undefined, taskOf })
  t.teardown(() => Object.values(cluster.workers ?? {}).map((one) => one?.process.kill('SIGKILL')))
  await fleet.start()
  t.equal(fleet.serving.length, 3)
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const stopped = fleet.stop(1000).then(() => '', messageOf)
  while (fleet.members.length > 1) await once(cluster, 'exit')
  mock.timers.tick(1000)
  const killed = 'worker 2 did not end as it should (SIGKILL)'
  t.equal(await stopped, `worker 1: stuck; ${killed}; worker 3: stuck`)
  const lines = said.map((line) => JSON.parse(line) as Record<string, unknown>)
  t.equal(lines.length, 3)
  t.match(
    lines.toSorted((a, b) => Number(a['worker']) - Number(b['worker'])),
    [
      { worker: 1, err: { message: 'worker 1: stuck' } },
      { worker: 2, signal: 'SIGKILL', err: { message: killed } },
      { worker: 3, err: { message: 'worker 3: stuck' } },
    ],
  )
})
