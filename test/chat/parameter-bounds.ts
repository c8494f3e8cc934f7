import t from 'tap'
import type { Test } from 'tap'
import * as bounds from '../../src/chat/parameter-bounds.ts'
import type { Check } from '../../src/chat/parameter-bounds.ts'
import { scanJson } from '../../src/http/json/scan.ts'

const judge = (check: Check, value: unknown, others = {}) =>
  check(value, 'p', scanJson(Buffer.from(JSON.stringify({ p: value, ...others })), new Set()))

function table(t: Test, check: Check, { fine, must = [], word = [] }: Cases) {
  for (const value of fine) t.equal(judge(check, value), undefined, JSON.stringify(value))
  for (const value of must) t.match(judge(check, value), { must: String }, JSON.stringify(value))
  for (const value of word) t.match(judge(check, value), { word: 'p' }, JSON.stringify(value))
}

interface Cases {
  readonly fine: readonly unknown[]
  readonly must?: readonly unknown[]
  readonly word?: readonly unknown[]
}

t.test('lists have a length', async (t) => {
  const many = (count: number) => Array.from({ length: count }, (_, i) => i)
  table(t, bounds.texts(2, 3), {
    fine: ['abc', [], ['a', 'b']],
    must: ['abcd', ['a', 'b', 'c'], ['abcd'], [1], {}, 1],
  })
  table(t, bounds.ids(2), { fine: [[], [1, -1]], must: [[1, 2, 3], [1.5], ['1'], '1', {}] })
  table(t, bounds.members(2), {
    fine: [{}, { a: 1, b: 2 }, [[1, 2]]],
    must: [{ a: 1, b: 2, c: 3 }, many(3), 'a', 1],
  })
})

t.test('probabilities of the whole vocabulary are not asked for', async (t) => {
  table(t, bounds.probabilities, { fine: [true, false, 0, 20], must: [-1, 21, 1.5, '5', [], 1e9] })
})

t.test('nothing that is counted can be switched off', async (t) => {
  table(t, bounds.isTrue, { fine: [true], word: [false], must: [0, 'true'] })
  table(t, bounds.reasoningFormat, { fine: ['none', 'parsed'], word: ['hidden', 1, {}] })
  table(t, bounds.reasoning, {
    fine: [{}, { effort: 'low', max_tokens: 5, enabled: true, exclude: false }, { effort: null }],
    word: [{ exclude: true }, { Exclude: true }, { enabled: 'x' }],
    must: ['low', []],
  })
})

t.test('only tools that run at the client pass', async (t) => {
  const type = (name: unknown) => [{ type: name }]
  table(t, bounds.tools, {
    fine: [[], type('function'), type('custom'), [{ function: { name: 'type' } }]],
    must: [{}, ['a'], type(1), type('x'.repeat(65)), [{ Type: 'mcp', type: 'function' }]],
  })
  t.strictSame(judge(bounds.tools, [...type('function'), ...type('mcp')]), {
    word: 'mcp',
    at: '[1].type',
  })
  for (const tool of [{ googleSearch: {} }, { type: 'function', function: {}, googleSearch: {} }]) {
    const word = { word: 'googleSearch', at: '[0].googleSearch' }
    t.strictSame(judge(bounds.tools, [tool]), word, 'nor does one without a type')
  }
})

t.test('schemas pass, grammars do not', async (t) => {
  table(t, bounds.responseFormat, {
    fine: [{ type: 'text' }, { type: 'json_schema', json_schema: { schema: { type: 'grammar' } } }],
    word: [{ type: 'grammar' }, { type: 'json_object', pattern: 'x' }, { Type: 'grammar' }],
    must: ['text'],
  })
  table(t, bounds.structuredOutputs, {
    fine: [{ json: {}, choice: ['a'] }],
    word: [{ regex: 'a' }],
  })
})

t.test('templates get short words by known names only', async (t) => {
  table(t, bounds.templateKeywords, {
    fine: [{}, { enable_thinking: false }, { thinking: true, reasoning_effort: 'high' }],
    word: [
      { documents: [] },
      { enable_thinking: 'x'.repeat(65) },
      { thinking: {} },
      { toString: 1 },
    ],
    must: [[], 'x'],
  })
})

t.test('output is counted in tokens', async (t) => {
  table(t, bounds.modalities, {
    fine: [['text'], ['text', 'audio']],
    word: [['image']],
    must: ['text'],
  })
})

t.test('an echo has no probabilities', async (t) => {
  table(t, bounds.echo, { fine: [true, false], must: ['yes', 1] })
  for (const others of [{ logprobs: 0 }, { logprobs: 5 }, { n_probs: 1 }, { top_logprobs: 1 }]) {
    t.match(judge(bounds.echo, true, others), { word: 'p' })
    t.equal(judge(bounds.echo, false, others), undefined)
  }
  t.equal(judge(bounds.echo, true, { logprobs: null }), undefined)
})

t.test('a prompt is text or tokens', async (t) => {
  table(t, bounds.prompt, {
    fine: ['a', ['a', 'b'], [1, 2], [[1], [2]], [1, 'a']],
    must: [{ prompt_string: 'a' }, [{ multimodal_data: [] }], [[{}]], true],
  })
})

t.test('stream_options is written anew', async (t) => {
  table(t, bounds.streamOptions, {
    fine: [{}, { include_usage: null, include_obfuscation: false, continuous_usage_stats: true }],
    must: [[], 'a', { include_usage: 1 }],
  })
  t.strictSame(judge(bounds.streamOptions, { Include_Usage: true }), { unknown: '.Include_Usage' })
  const write = bounds.writeStreamOptions
  t.equal(write({ include_usage: false }, { include_usage: true }), '{"include_usage":true}')
  t.equal(write({ include_usage: false }, {}), '{"include_usage":false}')
  t.equal(write(undefined, {}), undefined)
  t.equal(write({ include_obfuscation: null }, {}), undefined)
})
