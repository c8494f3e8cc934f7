// `npm run thieves`: customers who want more than they paid for, and customers who want to shut the others out, against
// two gateways on a real Redis. Prints what each got and paid, and what each cost the others; exits with 1 if one
// succeeded.
//
//   --seed N         the seed of all random choices; printed, so that a run can be repeated
//   --seconds N      about the length of the whole run, at least 240: mixtures and attacks get the time that is left
//   --part PART      `money` or `others`
//   --only TEXT      strategies and attacks whose name contains it; also `mixtures`, `sequence`, `a killed gateway`
//   --json           the figures as JSON

import { parseArgs } from 'node:util'
import { endOnSignals, withTeardown } from '../ending.ts'
import { faultsOf, robMoney } from './money.ts'
import type { MoneyReport } from './money.ts'
import { attacks } from './others/attacks.ts'
import { besiege } from './others/siege.ts'
import type { Siege } from './others/siege.ts'
import { moneyText, siegesText } from './report.ts'
import { startWorld } from './world.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    seconds: { type: 'string', default: '240' },
    part: { type: 'string', default: 'money others' },
    only: { type: 'string', default: '' },
    json: { type: 'boolean', default: false },
  },
})
const { only } = values
const seed = Number(values.seed)
const ms = 1000 * Number(values.seconds)
const isLong = ms >= 500_000

endOnSignals()
const money = values.part.includes('money') ? await rob() : undefined
const sieges = values.part.includes('others') ? await besiegeAll() : []
if (values.json) console.log(JSON.stringify({ seed, money, sieges }))
else
  console.log(
    [`Seed ${seed}.`, money && moneyText(money), sieges.length > 0 && siegesText(sieges)]
      .filter(Boolean)
      .join('\n\n'),
  )
const isGood = sieges.every(({ fault }) => fault === '') && (!money || faultsOf(money).length === 0)
process.exitCode = isGood ? 0 : 1

/** Each strategy once, a killed gateway and the sequence take the other fifth of the time. */
function rob(): Promise<MoneyReport> {
  const options = { seed, mixtureMs: 0.2 * ms, sequence: isLong ? 40_000 : 1000, only }
  return withTeardown(async (t) => robMoney(await startWorld(t), options))
}

async function besiegeAll(): Promise<readonly Siege[]> {
  const names = Object.keys(attacks).filter((name) => name.includes(only))
  // Two gateways and a Redis are started for each.
  const eachMs = Math.max(4000, (0.6 * ms) / Object.keys(attacks).length - 5000)
  const sieges: Siege[] = []
  for (const name of names) {
    const duringMs = 0.7 * eachMs
    sieges.push(await besiege(name, { warmMs: 1000, beforeMs: eachMs - duringMs, duringMs }))
  }
  return sieges
}
