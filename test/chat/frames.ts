// The grammar of /v1, byte for byte, and the gateway's own chunks.

import t from 'tap'
import { latin1, lengthChunk, plainGrammar } from '../../src/chat/frames.ts'
import type { LengthChunk } from '../../src/chat/frames.ts'

t.test('a plain frame is the data alone, of one line or of several, under its name', async (t) => {
  t.equal(plainGrammar.frame({ event: undefined, data: '{"a":1.0}' }), 'data: {"a":1.0}\n\n')
  t.equal(
    plainGrammar.frame({ event: 'error', data: 'a\nb' }),
    'event: error\ndata: a\ndata: b\n\n',
  )
  const lines = 'data: a\ndata: b\ndata: \ndata: c\n\n'
  t.equal(plainGrammar.frame({ event: undefined, data: 'a\nb\n\nc' }), lines)
})

t.test('our own last chunk ends a choice by length, in the shape of its endpoint', async (t) => {
  const chunk = (part: Partial<LengthChunk>): unknown => {
    const data = lengthChunk({ id: 'req_1', model: 'ü', endpoint: 'chat', index: 0, ...part })
    return JSON.parse(Buffer.from(data, 'latin1').toString())
  }
  t.match(chunk({}), { model: 'ü', choices: [{ index: 0, delta: {}, finish_reason: 'length' }] })
  t.strictSame((chunk({ endpoint: 'completions', index: 1 }) as { choices: unknown }).choices, [
    { index: 1, text: '', logprobs: null, finish_reason: 'length' },
  ])
  t.match(chunk({ endpoint: 'completions' }), { object: 'text_completion' })
  t.equal(latin1('ü'), '\u00c3\u00bc')
})
