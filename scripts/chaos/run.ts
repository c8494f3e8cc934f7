// `npm run chaos`: a company's machines on a bad night, and its customers. Kills, freezes, fail-overs, cuts, slow lines
// and full disks come by chance; then every promise of docs/money.md, docs/sessions.md and docs/files.md is checked.
// Prints the seed, what happened, and what was broken; exits with 1 if anything was.
//
//   --redis KIND     single (the default), cluster or sentinel
//   --seed N         the seed of all random choices
//   --seconds N      how long things break, by default 600
//   --only TEXT      only faults whose name contains it

import { parseArgs } from 'node:util'
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
const options = { seed: Number(values.seed), seconds: Number(values.seconds), only, redis, say }

endOnSignals()
console.log(`Seed ${options.seed}, Redis: ${redis}.`)
const report = await withTeardown((t) => chaos(t, options))
console.log(textOf(report))
process.exitCode = report.broken.length === 0 ? 0 : 1
