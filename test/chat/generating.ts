// How the end of a generation is told to the plugins.

import t from 'tap'
import { finishesAlone, outcome } from '../../src/chat/generating.ts'
import type { Generation } from '../../src/chat/generating.ts'
import type { ChatRequest } from '../../src/chat/request.ts'
import type { Facts } from '../../src/exchange.ts'

function ended(sentAtMs: number): { generation: Generation; facts: Facts } {
  const facts: Facts = { flushes: 0 }
  return { generation: { x: { facts }, sentAtMs } as unknown as Generation, facts }
}

t.test('a request that went out whole may have cost something, and took some time', async (t) => {
  const { generation, facts } = ended(performance.now())
  t.match(outcome(generation, 200), { status: 200, backendAsked: true, complete: true, cut: false })
  t.type(facts.upstreamMs, 'number')
})

t.test('one that did not go out cost nothing', async (t) => {
  const { generation, facts } = ended(0)
  t.equal(outcome(generation, 502).backendAsked, false)
  t.equal(facts.upstreamMs, undefined)
})

t.test('the usage is read if the model says so, or nothing else reports', async (t) => {
  const alone = (onLeave: 'abort' | 'finish' | undefined, stream: boolean, generates = true) =>
    finishesAlone({ model: { onLeave }, row: { generates }, stream } as unknown as ChatRequest)
  for (const stream of [true, false]) {
    t.equal(alone('finish', stream), true)
    t.equal(alone('abort', stream), false)
    t.equal(alone(undefined, stream), !stream)
    t.equal(alone('finish', stream, false), false, 'embeddings cost their prompt, which is known')
  }
})
