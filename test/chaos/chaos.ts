// A bad night in short: `npm run chaos` plays it for ten minutes. SEED=… repeats a run.

import t from 'tap'
import { chaos } from '../../scripts/chaos/chaos.ts'
import type { StateKind } from '../../scripts/chaos/state.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)

const nights: readonly { readonly redis: StateKind; readonly seconds: number }[] = process.env.LONG
  ? [
      { redis: 'single', seconds: 300 },
      { redis: 'cluster', seconds: 40 },
    ]
  : [{ redis: 'single', seconds: 60 }]

for (const { redis, seconds } of nights) {
  t.test(`no promise is broken in ${seconds} s, Redis: ${redis} (SEED=${seed})`, async (t) => {
    const { outcomes, checked, lost, broken } = await chaos(t, { seed, seconds, redis, only: '' })
    t.comment(Object.fromEntries(outcomes.faults), checked, Object.fromEntries(lost))
    t.same(broken, [])
    t.ok(outcomes.faults.size > 5, 'several kinds of faults happened')
    const { messages = 0, files = 0, payments = 0 } = checked
    t.ok(Math.min(messages, files, payments) > 0, JSON.stringify(checked))
  })
}
