// `npm run thieves`: customers who want more than they paid for, and customers who want the others out, against two
// gateways on a real Redis. Prints what each got and paid, and what each cost the others; ends with 1 where one got away.
//
//   --seed N        what is drawn at random; printed, so that a run can be repeated
//   --seconds N     for the whole run, about; mixtures take what the rest leaves
//   --only TEXT     the strategies whose name has it; `others` or `money` for one half
//   --json          the figures as JSON

import { parseArgs } from 'node:util'
import { teardownOf } from '../../test/fixtures/teardown.ts'
import { faultsOf, robMoney } from './money.ts'
import { moneyText } from './report.ts'
import { startWorld } from './world.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    seconds: { type: 'string', default: '120' },
    only: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
})
const seed = Number(values.seed)
const seconds = Number(values.seconds)
const isLong = seconds >= 300

await using undo = new AsyncDisposableStack()
const world = await startWorld(teardownOf(undo))
const money = await robMoney(world, {
  seed,
  mixtureMs: seconds * 250,
  sequence: isLong ? 20_000 : 1000,
  only: values.only,
})
const faults = faultsOf(money)
if (values.json) {
  console.log(JSON.stringify({ seed, money }))
} else {
  console.log(`Seed ${seed}.\n\n${moneyText(money)}`)
}
process.exitCode = faults.length === 0 ? 0 : 1
