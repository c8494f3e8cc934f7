// Each way to steal that is known, once, and mixtures of them from a fixed seed: `npm run thieves` does it for longer.
// `npm run test:long` sends more requests one after the other.

import t from 'tap'
import { faultsOf, robMoney, strategies } from '../../scripts/thieves/money.ts'
import { moneyText } from '../../scripts/thieves/report.ts'
import { startWorld } from '../../scripts/thieves/world.ts'

const seed = 20_261_122
const sequence = process.env.LONG ? 20_000 : 2000
/** Results of the shield, a debt and a killed gateway. */
const more = 9

t.test('what thieves use is paid or owed, and honest clients pay no more than that', async (t) => {
  const world = await startWorld(t)
  const report = await robMoney(world, { seed, mixtureMs: 4000, sequence })
  t.comment(moneyText(report))
  t.equal(report.results.length, strategies.length + more, 'all were played')
  t.ok(report.mixtures.length > 0, 'mixtures, too')
  t.ok(
    report.results.some(({ truth }) => truth > 100_000),
    'there was something to steal',
  )
  t.strictSame(faultsOf(report), [])
})
