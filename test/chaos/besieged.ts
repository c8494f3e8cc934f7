// Each attack on others beside an honest customer, shortly: `npm run thieves` measures latencies, too, for which a machine
// has to do nothing else.

import t from 'tap'
import { attacks } from '../../scripts/thieves/others/attacks.ts'
import { besiege } from '../../scripts/thieves/others/siege.ts'
import type { Siege } from '../../scripts/thieves/others/siege.ts'
import { siegesText } from '../../scripts/thieves/report.ts'

const atOnce = 2
/** A gateway that stands still for so long is noticed on a busy machine, too. */
const mostGrowthMs = 1000
/** How soon garbage is collected depends on how busy the machine is; what was mended took 500 and more. */
const mostRssMiB = 350
const times = { warmMs: 600, beforeMs: 900, duringMs: 2500 }

t.test('an honest customer is served while others attack', async (t) => {
  const left = Object.keys(attacks)
  const sieges: Siege[] = []
  const worker = async () => {
    for (let name = left.shift(); name; name = left.shift()) {
      sieges.push(await besiege(name, { ...times, mostGrowthMs, mostRssMiB }))
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  t.comment(siegesText(sieges))
  for (const { name, requests, fault } of sieges) {
    t.equal(fault, '', name)
    t.ok(requests > 40, `${name}: the customer was there`)
  }
})
