// `npm run fuzz`: every route of /openapi.json with what schemathesis makes of it, valid and not, against a gateway of its
// own. `--seconds 600` goes on for so long; `--seed 7` begins elsewhere; `--only listFiles` is one operation. Prints what
// it found, with a curl line for each; exits with 1 if anything was wrong.

import { parseArgs } from 'node:util'
import { fuzz } from './fuzz.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '300' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    only: { type: 'string', multiple: true, default: [] },
  },
})

await using undo = new AsyncDisposableStack()
const { seconds, seed, only } = values
console.log(`seed ${seed}, ${seconds} s`)
const { isGood, lines } = await fuzz(undo, {
  seed: Number(seed),
  seconds: Number(seconds),
  only,
  onLine: (line) => console.log(line),
})
console.log(isGood ? `nothing was wrong (${lines.length} lines)` : 'something was wrong')
process.exitCode = isGood ? 0 : 1
