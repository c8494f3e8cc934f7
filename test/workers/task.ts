import t from 'tap'
import { taskVariable } from '../../src/workers/task.ts'

t.test('a process that was not started by a supervisor has no task', async (t) => {
  t.equal(process.env[taskVariable], undefined)
})
