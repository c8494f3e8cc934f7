// What a worker does: test/chaos/workers.ts. Here: without a supervisor it is none.

import t from 'tap'
import { startCommand } from '../scripts/start-command.ts'
import { runProcess } from './fixtures/process.ts'

t.test('a process that says it is a worker, and has no supervisor, ends', async (t) => {
  const env = { PATH: process.env.PATH ?? '', TOLLGATE_WORKER: '1' }
  const { code, err } = await runProcess(t, startCommand(), { env })
  t.equal(code, 1)
  t.match(err, /has gone/)
})
