// One request after the other over two gateways, on accounts that may run one at a time (finding 8): no request is
// refused, and a balance that is read on the other gateway after an answer is not stale.

import { call } from './others/means.ts'
import type { World } from './world.ts'

export interface Sequence {
  readonly requests: number
  /** Number of balances that were read. */
  readonly reads: number
  readonly refused: number
  readonly stale: number
  readonly fault: string
}

const grant = 1_000_000_000
/** Customers at the same time, each with one request after the other: a busy gateway is late more easily. */
const customers = 4

export async function playSequence(world: World, count: number): Promise<Sequence> {
  const [first, second] = world.gateways
  let refused = 0
  let stale = 0
  let reads = 0
  const customer = async () => {
    const { key } = await first.account(grant, { plan: 'single' })
    let left = grant
    for (let i = 0; i < count / customers; i++) {
      const [here, there] = i % 2 === 0 ? [first, second] : [second, first]
      const stream = i % 4 < 2
      const url = `${here.url}/v1/chat/completions`
      const { status, text } = await call({ url, key, body: bodyOf(stream) })
      if (status !== 200) {
        refused++
        continue
      }
      left -= Number(/"total_tokens":(\d+)/.exec(text)?.[1] ?? 0)
      // The balance is read after every second answer only: a request that follows at once must be accepted, too.
      if (i % 2 !== 0) continue
      reads++
      const read = await call({ url: `${there.url}/api/billing/balance`, key })
      const { balance } = JSON.parse(read.text) as { readonly balance: number }
      if (balance !== left) stale++
    }
  }
  await Promise.all(Array.from({ length: customers }, customer))
  const fault = refused + stale > 0 ? 'refused or stale' : ''
  return { requests: count, reads, refused, stale, fault }
}

/** As short as possible, because the test measures what comes right after the answer. */
function bodyOf(stream: boolean): string {
  const options = stream ? { stream, stream_options: { include_usage: true } } : {}
  return JSON.stringify({
    model: 'quick',
    messages: [{ role: 'user', content: 'Hi' }],
    max_tokens: 1,
    ...options,
  })
}
