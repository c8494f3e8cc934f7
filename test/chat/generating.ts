// How the end of a generation is told to the plugins.

import t from 'tap'
import { outcome } from '../../src/chat/generating.ts'
import type { Generation } from '../../src/chat/generating.ts'
import type { Facts } from '../../src/exchange.ts'

function ended(sentAtMs: number): { generation: Generation; facts: Facts } {
  const facts: Facts = {}
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
