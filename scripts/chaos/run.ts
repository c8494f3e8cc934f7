// `npm run chaos`: a company's machines on a bad night, and its customers. Kills, freezes, fail-overs, cuts, slow lines
// and full disks come by chance; then every promise of docs/money.md, docs/sessions.md and docs/files.md is checked.
// Prints the seed, what happened, and what was broken; exits with 1 if anything was, or if something is left over: each
// wait at the end has a bound.
//
//   --redis KIND     single (the default), cluster or sentinel
//   --seed N         the seed of all random choices
//   --seconds N      how long things break, by default 600
//   --only TEXT      only faults whose name contains it

import { parseArgs } from 'node:util'
import { until } from '../../test/fixtures/until.ts'
import { endOnSignals, withTeardown } from '../ending.ts'
import { chaos } from './chaos.ts'
import { textOf } from './report.ts'
import { stateKinds } from './state.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    seconds: { type: 'string', default: '600' },
    only: { type: 'string', default: '' },
    redis: { type: 'string', default: 'single' },
  },
})
const redis = stateKinds.find((kind) => kind === values.redis)
if (redis === undefined) throw new Error(`--redis is one of ${stateKinds.join(', ')}`)
const { only } = values
const say = (text: string) => console.log(`${new Date().toISOString()} ${text}`)
/** How long what was started may take to end: ten servers, each killed. */
const teardownMs = 120_000
/** How long sockets may take to close. */
const closingMs = 15_000
const options = { seed: Number(values.seed), seconds: Number(values.seconds), only, redis, say }

endOnSignals()
console.log(`Seed ${options.seed}, Redis: ${redis}.`)
const isKept = await withTeardown(async (t) => {
  try {
    const report = await chaos(t, options)
    console.log(textOf(report))
    return report.broken.length === 0
  } finally {
    endBy(teardownMs)
  }
})
const left = await leftOpen(closingMs)
if (left.length > 0) console.log(`left over: ${left.join(', ')}`)
process.exit(isKept && left.length === 0 ? 0 : 1)

/** Ends the process if it is still there. */
function endBy(ms: number): void {
  setTimeout(() => {
    console.log(`left over: the end of what was started, after ${ms / 1000} s`)
    process.exit(1)
  }, ms).unref()
}

/** What would keep this process alive, as Node names it, when it has had this time to close. */
async function leftOpen(ms: number): Promise<readonly string[]> {
  const open = () => process.getActiveResourcesInfo().filter((name) => name !== 'Timeout')
  await until(() => open().length === 0, ms).catch(() => undefined)
  return open()
}
