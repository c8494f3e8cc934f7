// Every text below `choices[]` is found, once; fields of the protocol are not counted, and no data makes it throw.

import t from 'tap'
import { readChunk, readInTurns } from '../../src/backend/chunk.ts'

const read = (data: string) => {
  const texts: string[] = []
  const chunk = readChunk(data, (text) => texts.push(text))
  return { ...chunk, found: texts }
}
const found = (data: string | object): string[] =>
  read(typeof data === 'string' ? data : JSON.stringify(data)).found
const choice = (of: object) => ({ choices: [{ index: 0, ...of }] })

t.test('strings are found whole, whatever is escaped in them', async (t) => {
  for (const said of [
    'a',
    '"',
    '\\',
    '\\"',
    'a"content":"b',
    '\n\t',
    '\u0001',
    '{"text":"x"}',
    '"]}',
  ]) {
    t.strictSame(
      found(choice({ delta: { content: said } })).map(
        (piece) => JSON.parse(`"${piece}"`) as unknown,
      ),
      [said],
    )
  }
})

t.test('all texts that a model can generate are found', async (t) => {
  const said = {
    content: 'a',
    parts: { content: [{ type: 'text', text: 'a' }] },
    reasoning: { reasoning: 'a' },
    refusal: { refusal: 'a' },
    arguments: { tool_calls: [{ index: 0, id: 'x', function: { arguments: 'a' } }] },
    'custom tools': { tool_calls: [{ type: 'custom', custom: { input: 'a' } }] },
    'old calls': { function_call: { arguments: 'a' } },
    transcript: { audio: { id: 'x', transcript: 'a', expires_at: 5 } },
    unknown: { thoughts: 'a' },
    'unknown list': { thoughts: ['a'] },
  }
  for (const [name, delta] of Object.entries(said)) {
    const own = name === 'content' ? { content: 'a' } : delta
    for (const holder of ['delta', 'message']) {
      t.strictSame(found(choice({ [holder]: own })), ['a'], name)
    }
  }
  t.strictSame(found(choice({ text: 'a' })), ['a'])
  t.strictSame(
    found(choice({ delta: { tool_calls: [{ function: { name: 'f', arguments: '{}' } }] } })),
    ['f', '{}'],
  )
  t.strictSame(
    found(
      choice({ message: { tool_calls: [{ function: { arguments: { key: 'value', n: 5 } } }] } }),
    ),
    ['key', 'value', 'n', '5'],
    'an object of arguments, keys and all',
  )
})

t.test('texts of the protocol are not found', async (t) => {
  t.strictSame(found({ id: 'x', model: 'm', object: 'o', obfuscation: 'abc', content: 'no' }), [])
  const delta = { role: 'assistant', id: 'x', type: 'y', content: null }
  const filters = { content_filter_results: { hate: { severity: 'safe' } } }
  const rest = { finish_reason: 'stop', stop_reason: 'eos', prompt_token_ids: [1, 2] }
  const chunk = read(JSON.stringify(choice({ delta, ...filters, ...rest })))
  t.strictSame([chunk.found, chunk.ids], [[], 0])
})

t.test('ids, and entries of logprobs, are counted and say no text', async (t) => {
  const ids = read(JSON.stringify(choice({ delta: { content: '' }, token_ids: [1, 2, 3] })))
  t.match(ids, { ids: 3, texts: 0 })
  const token = { token: 't', logprob: -1, bytes: [116], top_logprobs: [{ token: 'u' }] }
  const logprobs = { content: [token, token], refusal: null }
  t.match(read(JSON.stringify(choice({ delta: { content: 'tt' }, logprobs }))), {
    ids: 2,
    found: ['tt'],
  })
  const old = {
    tokens: ['a', 'b'],
    token_logprobs: [-1, -2],
    text_offset: [0, 1],
    top_logprobs: null,
  }
  t.match(read(JSON.stringify(choice({ text: 'ab', logprobs: old }))), { ids: 2, found: ['ab'] })
  t.match(read(JSON.stringify(choice({ delta: { audio: { data: 'AAAA' } } }))), { audioBytes: 4 })
})

t.test('a thought under two keys counts once, a text of two choices twice', async (t) => {
  t.strictSame(found(choice({ delta: { reasoning: 'hm', reasoning_content: 'hm' } })), ['hm'])
  const details = [{ type: 'reasoning.text', text: 'hm' }]
  t.strictSame(found(choice({ delta: { reasoning: 'hm', reasoning_details: details } })), ['hm'])
  const delta = { content: 'a' }
  t.strictSame(found({ choices: [{ delta }, { delta }] }), ['a', 'a'])
})

t.test('finishes and usage are recognised by their place', async (t) => {
  const usage = { prompt_tokens: 5, details: { a: {} } }
  const data = JSON.stringify({ ...choice({ delta: { usage }, finish_reason: 'stop' }), usage })
  const chunk = read(data)
  t.match(chunk.choices, [{ index: 0, isFinished: true, reason: 'stop' }])
  t.strictSame(JSON.parse(data.slice(...(chunk.usage ?? []))), usage)
  t.match(read(JSON.stringify(choice({ finish_reason: null }))).choices, [{ isFinished: false }])
  t.match(read('{"choices": [ ],"usage" : {} }'), { hasChoices: true, choices: [] })
  t.equal(read('{"usage":null}').usage, undefined)
  t.equal(read('{"usage":[{}]}').usage, undefined)
  t.equal(read('{"usage":{"prompt_tokens":5').usage, undefined)
  t.equal(read(JSON.stringify(choice({ delta: { usage } }))).usage, undefined)
  t.match(read('{"choices":[{"finish_reason" :\n"stop"}]}').choices, [{ isFinished: true }])
})

t.test('a broken chunk is read as far as possible', async (t) => {
  t.strictSame(found('{"choices":[{"delta":{"content":"abc'), ['abc'])
  t.strictSame(found('{"choices":[{"delta":{"content":"abc\\"'), ['abc\\"'])
  for (const data of [
    '',
    'null',
    ']]]]',
    '{',
    '[[[[',
    '"',
    '{"choices":5}',
    '{"choices":[5]}',
    '{:}',
  ]) {
    t.strictSame(found(data), [], data)
  }
  const deep = `{"choices":[${'['.repeat(100_000)}`
  t.strictSame(found(deep), [])
  t.ok(read(`{"choices":[${'{},'.repeat(5000)}]}`).choices.length <= 1024)
})

t.test('megabytes are read in turns of the event loop, to the same end', async (t) => {
  const logprobs = { content: Array.from({ length: 30_000 }, () => ({ token: 'a', bytes: [97] })) }
  const data = JSON.stringify(choice({ message: { content: 'a' }, logprobs }))
  const texts: string[] = []
  let turns = 0
  let isRead = false
  const count = () => void (++turns, isRead || setImmediate(count))
  setImmediate(count)
  const chunk = await readInTurns(data, (text) => texts.push(text))
  isRead = true
  t.strictSame({ ...chunk, found: texts }, read(data))
  t.ok(turns >= 4, `${turns}`)
})
