// The model server of a rolling restart, in a process of its own: customers who keep a process busy would keep it from
// accepting the gateways' connections.

import { startHonestBackend } from '../thieves/backend.ts'
import type { Truth } from '../thieves/truth.ts'
import { obey } from '../worker.ts'

/** The order: say what was served for this trace, once nothing of it runs any more. */
export interface ServedOrder {
  readonly trace: string
}

export type ServedReport = Pick<Truth, 'cost' | 'cut'>

// It ends with its process.
const backend = await startHonestBackend({ teardown: () => undefined })

obey<ServedOrder, ServedReport>(backend.url, async ({ trace }) => {
  const truth = backend.truths.of(trace)
  await truth.idle()
  const { cost, cut } = truth
  return { cost, cut }
})
