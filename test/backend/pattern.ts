// A chunk counts as similar to the last one only if nothing but its one text differs.

import t from 'tap'
import { readChunk } from '../../src/backend/chunk.ts'
import { Pattern } from '../../src/backend/pattern.ts'
import { settledBytes } from '../fixtures/heap.ts'

const chunk = (delta: object, rest: object = {}) =>
  JSON.stringify({
    id: 'x',
    choices: [{ index: 0, delta, finish_reason: null, ...rest }],
    usage: null,
  })

function learnt(data: string): Pattern {
  const pattern = new Pattern()
  pattern.learn(
    data,
    readChunk(data, () => undefined),
  )
  return pattern
}

t.test('the text of a chunk with the known shape is found, whatever it contains', async (t) => {
  const pattern = learnt(chunk({ content: 'Hi' }))
  for (const said of ['', 'a', '"', '\\', '\\"', '"}', '","x":"', '\n', '"finish_reason":"stop"']) {
    t.equal(pattern.textOf(chunk({ content: said })), JSON.stringify(said).slice(1, -1))
  }
})

t.test('a chunk with any other difference is not similar', async (t) => {
  const pattern = learnt(chunk({ content: 'Hi' }))
  for (const other of [
    chunk({ content: 'a', more: 'b' }),
    chunk({ reasoning: 'a' }),
    chunk({ content: 'a' }).replace('"x"', '"y"'),
    chunk({ content: 'a' }, { finish_reason: 'stop' }),
    chunk({ content: 'a' }).replace('null}', '{}}'),
    chunk({ content: 'a' }).replace('"a"', '"a","b":"c"'),
    '',
    '{',
  ]) {
    t.equal(pattern.textOf(other), undefined, other)
  }
  t.equal(new Pattern().textOf(chunk({ content: 'a' })), undefined)
})

t.test('a chunk with more than one text is not learnt', async (t) => {
  for (const data of [
    chunk({ content: '' }),
    chunk({ content: 'a' }, { finish_reason: 'stop' }),
    chunk({ content: 'a' }, { token_ids: [1] }),
    chunk({ content: 'a', tool_calls: [{ function: { name: 'f' } }] }),
    JSON.stringify({ choices: [{ delta: { content: 'a' } }, { delta: {} }] }),
    JSON.stringify({ choices: [{ delta: { content: 'a' } }], usage: {} }),
  ]) {
    t.equal(learnt(data).textOf(data), undefined, data)
  }
})

t.test('a pattern does not keep the read that its chunk came in', async (t) => {
  const data = chunk({ content: 'Hi' })
  const start = data.indexOf('Hi')
  const before = await settledBytes()
  const patterns = Array.from({ length: 64 }, () => {
    const pattern = new Pattern()
    const read = Buffer.from(data.padEnd(256 * 1024)).toString('latin1')
    pattern.remember(read.slice(0, data.length), start, start + 2)
    return pattern
  })
  t.ok((await settledBytes()) - before < 1024 * 1024)
  for (const pattern of patterns) t.equal(pattern.textOf(data), 'Hi')
})
