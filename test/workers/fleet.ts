// A fleet starts this program again as its workers, so it is tested on whole gateways: test/chaos/workers.ts, and
// test/supervisor.ts for workers that do not start.

import t from 'tap'
import { createLog } from '../../src/log.ts'
import { Fleet } from '../../src/workers/fleet.ts'

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
