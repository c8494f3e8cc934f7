// How the end of a generation is told to the plugins, and to its client (all of it on the wire: relay.ts).

import t from 'tap'
import { plainGrammar } from '../../src/chat/frames.ts'
import { finishesAlone, outcome, terminal } from '../../src/chat/generating.ts'
import type { Generation } from '../../src/chat/generating.ts'
import type { ChatRequest } from '../../src/chat/request.ts'
import { GatewayError } from '../../src/errors.ts'
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

const toldOf = Object({
  x: { id: 'req_1' },
  request: { row: { endpoint: 'chat' }, model: { id: 'm' } },
  meter: { unfinished: [0, 2] },
  grammar: plainGrammar,
})

t.test('each choice that has not ended gets its finish before [DONE]', async (t) => {
  const frames = terminal(toldOf, { kind: 'length', cut: true })
  t.match(frames, /"index":0.*"length".*\n\n.*"index":2.*"length".*\n\ndata: \[DONE\]\n\n$/)
  t.notMatch(frames, /"index":1/)
})

t.test('an error is the last event, and who has left gets nothing', async (t) => {
  const error = new GatewayError('upstream_incomplete')
  t.match(terminal(toldOf, { kind: 'failed', error }), /^data: .*"upstream_incomplete".*\n\n$/)
  t.equal(terminal(toldOf, { kind: 'complete' }), 'data: [DONE]\n\n')
  t.equal(terminal(toldOf, { kind: 'left' }), '')
})
