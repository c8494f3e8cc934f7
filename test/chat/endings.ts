// What a stream's client gets last, by how it ended. All of it on the wire: relay.ts.

import t from 'tap'
import { terminal } from '../../src/chat/endings.ts'
import { plainGrammar } from '../../src/chat/frames.ts'
import { GatewayError } from '../../src/errors.ts'

const generation = Object({
  x: { id: 'req_1' },
  request: { row: { endpoint: 'chat' }, model: { id: 'm' } },
  meter: { unfinished: [0, 2] },
  grammar: plainGrammar,
})

t.test('each choice that has not ended gets its finish before [DONE]', async (t) => {
  const frames = terminal(generation, { kind: 'length', cut: true })
  t.match(frames, /"index":0.*"length".*\n\n.*"index":2.*"length".*\n\ndata: \[DONE\]\n\n$/)
  t.notMatch(frames, /"index":1/)
})

t.test('an error is the last event, and who has left gets nothing', async (t) => {
  const error = new GatewayError('upstream_incomplete')
  t.match(terminal(generation, { kind: 'failed', error }), /^data: .*"upstream_incomplete".*\n\n$/)
  t.equal(terminal(generation, { kind: 'complete' }), 'data: [DONE]\n\n')
  t.equal(terminal(generation, { kind: 'left' }), '')
})
