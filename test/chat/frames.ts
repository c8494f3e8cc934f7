// The grammar of both mounts, byte for byte.

import t from 'tap'
import { latin1, lengthChunk, plain } from '../../src/chat/frames.ts'

t.test('a plain frame is the data alone, of one line or of several, under its name', async (t) => {
  t.equal(plain.frame({ event: undefined, data: '{"a":1.0}' }), 'data: {"a":1.0}\n\n')
  t.equal(plain.frame({ event: 'error', data: 'a\nb' }), 'event: error\ndata: a\ndata: b\n\n')
})

t.test('our own last chunk ends by length, its name in bytes', async (t) => {
  const chunk: unknown = JSON.parse(Buffer.from(lengthChunk('req_1', 'ü'), 'latin1').toString())
  t.match(chunk, { model: 'ü', choices: [{ delta: {}, finish_reason: 'length' }] })
  t.equal(latin1('ü'), '\u00c3\u00bc')
})
