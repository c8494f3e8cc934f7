// The meter, against what real servers have sent and what a hostile one could send.

import t from 'tap'
import { Meter } from '../../src/backend/usage.ts'
import type { Reported } from '../../src/backend/report.ts'
import type { MeterOptions } from '../../src/backend/usage.ts'
import { bodyOf, eventsOf } from '../fixtures/sse-events.ts'

/** A tokenizer whose counts are easy to see: one token for each character. */
const count = async (text: string): Promise<number> => [...text].length

const meter = (options: Partial<MeterOptions> = {}): Meter =>
  new Meter({ completeWhen: 'finish_reason', choices: 1, count, ...options })

function fed(events: readonly string[], options: Partial<MeterOptions> = {}): Meter {
  const m = meter(options)
  for (const event of events) m.event(event)
  return m
}

const chunk = (choice: object, rest: object = {}): string =>
  JSON.stringify({ choices: [{ index: 0, ...choice }], ...rest })
const text = (content: string, index = 0): string => chunk({ index, delta: { content } })
const finish = (reason = 'stop', index = 0): string =>
  chunk({ index, delta: {}, finish_reason: reason })

const all: Reported = { prompt: 32, completion: 16, cached: 0 }

/** What each server reported, and whether it sent [DONE]. All stopped at their maximum. */
const streams: readonly (readonly [name: string, reported: Reported | undefined, done: boolean])[] =
  [
    ['llama-stream-usage-on', all, true],
    ['llama-stream-usage-off', undefined, true],
    ['tf-stream-usage-off', all, false],
    ['tf-stream-usage-on', all, false],
    ['llamapy-stream-usage-on', undefined, true],
    ['ollama-stream-usage-on', all, true],
    ['ollama-stream-usage-off', undefined, true],
  ]

for (const [name, reported, done] of streams) {
  t.test(`${name}: finished, with the usage that the server gave`, async (t) => {
    const m = fed(eventsOf(`${name}.sse`))
    t.ok(m.finished)
    t.ok(m.complete)
    t.strictSame(m.reported, reported)
    t.equal(m.sawDone, done)
    t.equal(m.finishReason, 'length')
    t.notOk(m.sawError)
    t.ok(m.contentEvents > 3)
  })
}

t.test('a stream whose runner was killed is not complete, even with [DONE]', async (t) => {
  const events = eventsOf('ollama-runner-killed-midstream.sse')
  t.notOk(fed(events).complete)
  t.notOk(fed([...events, '[DONE]']).complete)
  t.ok(fed([...events, '[DONE]'], { completeWhen: 'done' }).complete)
  t.ok(fed([...events, ' [DONE] '], { completeWhen: 'done' }).complete, 'with space around it')
})

t.test('a 200 without one event is not complete, and has no content', async (t) => {
  const m = fed(eventsOf('llamapy-err-too-long-stream.http'))
  t.notOk(m.complete)
  t.notOk(m.sawContent)
})

t.test('an error after a role chunk: no content, an error, not complete', async (t) => {
  const events = eventsOf('tf-stream-err-mt0.sse')
  const m = meter()
  t.strictSame(
    events.map((event) => m.event(event)),
    ['other', 'error'],
  )
  t.notOk(m.sawContent)
  t.ok(m.sawError)
  t.notOk(m.complete)
})

t.test('an error is a non-null top-level error in front, whole or broken', async (t) => {
  const errors = [
    '{"error":{"message":"x"}}',
    '{"error":"text"}',
    ' { "error" : { "message": "x" } }',
    '{"error": {"message": "brok',
    '{"error":',
    '{"error":"x","choices":[]}',
  ]
  for (const error of errors) t.equal(meter().event(error), 'error', error)
  const none = [
    '{"error":null,"choices":[{"delta":{"content":"x"}}]}',
    '{"error" : null , "choices":[{"delta":{"content":"x"}}]}',
    '{"choices":[{"delta":{"content":"x"}}],"error":null}',
    text('{"error":{"message":"no"}}'),
  ]
  for (const event of none) t.equal(meter().event(event), 'content', event)
})

t.test('a role, an empty or a null text, and nothing at all are no content', async (t) => {
  const none = [
    { role: 'assistant' },
    { role: 'assistant', content: null },
    { role: 'assistant', content: '' },
    { content: '', tool_calls: [] },
    {},
  ]
  for (const delta of none) {
    t.equal(meter().event(chunk({ delta, finish_reason: null })), 'other', JSON.stringify(delta))
  }
  t.equal(meter().event('{"choices":[],"prompt_filter_results":[{"x":1}],"usage":null}'), 'other')
  t.equal(meter().event('null'), 'other')
  t.equal(meter().event('not json'), 'other')
})

t.test('text, reasoning, a refusal, a tool call, sound and a finish are content', async (t) => {
  const some = [
    { role: 'assistant', content: 'x' },
    { tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '' } }] },
    { function_call: { name: 'f' } },
    { audio: { id: 'a', data: 'AAAA' } },
  ]
  for (const delta of some)
    t.equal(meter().event(chunk({ delta })), 'content', JSON.stringify(delta))
  t.equal(meter().event('{"choices":[{"text":"x","index":0}]}'), 'content')
  t.equal(meter().event(finish()), 'content')
  t.equal(meter().event('{"choices": [{"delta": {"content":\n "x"}}]}'), 'content')
})

t.test('a usage chunk is told from a finish that carries usage, and both are read', async (t) => {
  const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
  const m = meter()
  t.equal(m.event(JSON.stringify({ choices: [], usage })), 'usage')
  t.strictSame(m.reported, { prompt: 3, completion: 4, cached: 0 })
  const other = meter()
  t.equal(other.event(chunk({ delta: {}, finish_reason: 'stop' }, { usage })), 'content')
  t.strictSame(other.reported, { prompt: 3, completion: 4, cached: 0 })
})

t.test(
  'a finish reason is found with spaces and in any place; null and absence are not one',
  async (t) => {
    for (const written of [
      '"finish_reason":"stop"',
      '"finish_reason" : "stop"',
      '"finish_reason":\n"stop"',
    ]) {
      t.ok(fed([`{"choices":[{${written},"index":0,"delta":{}}]}`]).finished, written)
    }
    for (const written of ['"finish_reason":null', '"finish_reason" : null', '"x":1']) {
      t.notOk(fed([`{"choices":[{"delta":{"content":"x"},${written}}]}`]).finished, written)
    }
    t.notOk(fed([text('"finish_reason":"stop"')]).finished, 'what a model says is no key')
    t.notOk(fed([text('\\"finish_reason":"stop"')]).finished)
  },
)

t.test('impossible usage is ignored', async (t) => {
  const wrong = [-1, 1.5, 1e308, 1e15, '5', null, true, {}, [5]]
  for (const value of wrong) {
    const written = JSON.stringify(value)
    const m = fed([
      text('abc'),
      finish(),
      `{"choices":[],"usage":{"prompt_tokens":${written},"completion_tokens":${written}}}`,
    ])
    t.equal(m.reported, undefined, written)
    t.match(await m.used({ promptTokens: 9 }), {
      prompt: 9,
      completion: 3,
      estimated: true,
      basis: 'counted',
    })
  }
  for (const broken of [
    '{"usage":{"prompt_tokens":5',
    '{"usage":{}}',
    '{"usage":[5]}',
    '{"usage":{"prompt_tokens":1e999}}',
  ]) {
    t.equal(fed([broken]).reported, undefined, broken)
  }
})

t.test('usage inside generated text, or in another object, is ignored', async (t) => {
  const said = text('{"usage":{"prompt_tokens":0,"completion_tokens":0}}')
  t.equal(fed([said]).reported, undefined)
  const nested = chunk({
    delta: { arguments: { usage: { prompt_tokens: 0, completion_tokens: 0 } } },
  })
  t.equal(fed([nested]).reported, undefined)
})

t.test('cached tokens are never more than the prompt', async (t) => {
  const usage = {
    prompt_tokens: 5,
    completion_tokens: 1,
    prompt_tokens_details: { cached_tokens: 9 },
  }
  const m = fed([text('x'), finish(), JSON.stringify({ choices: [], usage })])
  t.match(await m.used({ promptTokens: 1 }), {
    prompt: 5,
    cached: 5,
    completion: 1,
    estimated: false,
  })
})

t.test('two choices: finished when both are, complete when each that came is', async (t) => {
  const one = fed([text('a', 0), text('b', 1), finish('stop', 0)], { choices: 2 })
  t.notOk(one.finished)
  t.notOk(one.complete)
  one.event(finish('stop', 1))
  t.ok(one.finished)
  t.ok(one.complete)
  const ignored = fed([text('a'), finish()], { choices: 2 })
  t.notOk(ignored.finished, 'another choice may come')
  t.ok(ignored.complete, 'at a clean end none did')
})

t.test('one of two choices was reported: the larger count is an estimate', async (t) => {
  const m = fed(eventsOf('llama-stream-n2.sse'), { choices: 2 })
  t.ok(m.finished)
  const used = await m.used({ promptTokens: 1 })
  t.ok(used.completion > 4)
  t.ok(used.estimated)
  const whole = meter({ choices: 2 })
  t.ok(await whole.json(bodyOf('llama-nonstream-n2.http').toString('latin1')))
  t.equal(whole.reported?.completion, 4)
  t.equal(whole.reported?.cached, 31)
  t.ok((await whole.used({ promptTokens: 1 })).completion > 4)
})

t.test('a stream that was cut is charged what was counted, if that is more', async (t) => {
  const early = JSON.stringify({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 1 } })
  const m = fed([early, text('abcdef')])
  t.match(await m.used({ promptTokens: 3 }), { prompt: 7, completion: 6, estimated: true })
})

t.test('every whole answer of the real servers: complete, with its usage', async (t) => {
  for (const server of ['llama', 'tf', 'llamapy', 'ollama']) {
    const m = meter()
    t.ok(await m.json(bodyOf(`${server}-nonstream.http`).toString('latin1')), server)
    t.ok(m.complete)
    t.equal(m.reported?.completion, 16)
    t.match(await m.used({ promptTokens: 1 }), {
      completion: 16,
      estimated: false,
      basis: 'reported',
    })
  }
})

t.test('embeddings: usage is only the prompt, and nothing is missing', async (t) => {
  const m = meter({ choices: 0 })
  t.ok(await m.json(bodyOf('llama-embeddings-ok.http').toString('latin1')))
  t.ok(m.complete)
  t.match(await m.used({ promptTokens: 99 }), { prompt: 3, completion: 0, estimated: false })
  const rerank = meter({ choices: 0 })
  await rerank.json('{"results":[{"document":{"text":"long text"}}],"usage":{"total_tokens":8}}')
  t.match(await rerank.used({ promptTokens: 99 }), { prompt: 8, completion: 0, estimated: false })
})

t.test('where a backend reports only a total, the answer is not paid twice', async (t) => {
  const m = meter()
  await m.json('{"choices":[{"message":{"content":"a"}}],"usage":{"total_tokens":8}}')
  t.match(await m.used({ promptTokens: 7 }), { prompt: 7, completion: 1, estimated: true })
})

t.test('a very large whole answer is not parsed, and its usage is still read', async (t) => {
  const numbers = `[${'0.1234567,'.repeat(200_000)}0]`
  const m = meter({ choices: 0 })
  const body = `{"data":[{"embedding":${numbers}}],"usage":{"prompt_tokens":5,"total_tokens":5,"details":{"a":{}}}}`
  t.ok(await m.json(body))
  t.equal(m.reported?.prompt, 5)
})

t.test('an error with status 200, or no JSON object, is no answer', async (t) => {
  for (const body of ['{"error":{"message":"x"}}', '<html>', '', '[]', '"x"', '{"choices":[']) {
    const m = meter()
    t.notOk(await m.json(body), body)
    t.notOk(m.complete)
  }
})

t.test('a rough count: a token for each event or four characters, the larger one', async (t) => {
  t.equal(fed([text('a'), text('b'), text('c')]).roughTokens, 3)
  t.equal(fed([text('a'.repeat(40))]).roughTokens, 10)
})

t.test('a backend that runs past twice the bound of its choices and 64 is found out', async (t) => {
  for (const choices of [1, 2]) {
    const m = meter({ choices, outputPerChoice: 10 })
    const most = 64 + 20 * choices
    for (let i = 0; i < most; i++) m.event(text('x', i % choices))
    await new Promise((resolve) => setImmediate(resolve))
    t.notOk(m.overran, `${most} are allowed`)
    for (let i = 0; i < 40; i++) m.event(text('x', i % choices))
    await new Promise((resolve) => setImmediate(resolve))
    t.ok(m.overran)
  }
})

t.test('a count of zero beside content is none, and that of nothing is one', async (t) => {
  const usage = { prompt_tokens: 7, completion_tokens: 0 }
  const report = JSON.stringify({ choices: [], usage })
  const m = fed([text('abc'), finish(), report])
  t.match(await m.used({ promptTokens: 1 }), { prompt: 7, completion: 3, estimated: true })
  const whole = meter()
  const message = { content: 'abcd' }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  t.ok(await whole.json(JSON.stringify({ choices, usage })))
  t.match(await whole.used({ promptTokens: 1 }), { prompt: 7, completion: 4, estimated: true })
  const empty = fed([finish(), report])
  t.match(await empty.used({ promptTokens: 1 }), { prompt: 7, completion: 0, estimated: false })
})

t.test('a backend that was cleared once is looked at again', async (t) => {
  const m = meter({ outputPerChoice: 10, count: async (said) => (said.includes('y') ? 1000 : 1) })
  const send = async (said: string, events: number) => {
    for (let i = 0; i < events; i++) m.event(text(said))
    await new Promise((resolve) => setImmediate(resolve))
    return m.overran
  }
  t.equal(await send('x', 100), false, 'the tokenizer says it is little')
  t.equal(await send('y', 100), true)
})

t.test('a server that sends each letter as an event is not taken for a runaway', async (t) => {
  const m = meter({ outputPerChoice: 100, count: async (said) => Math.ceil(said.length / 4) })
  for (let i = 0; i < 400; i++) m.event(text('x'))
  await new Promise((resolve) => setImmediate(resolve))
  t.notOk(m.overran)
})

t.test('an event counts as at least one token, unless the server sends letters', async (t) => {
  const used = async (events: number, tokens: number) => {
    const m = meter({ count: async () => tokens })
    for (let i = 0; i < events; i++) m.event(text('x'))
    return (await m.used({ promptTokens: 1 })).completion
  }
  t.equal(await used(300, 196), 300, 'a small vocabulary')
  t.equal(await used(300, 400), 400)
  t.equal(await used(300, 75), 75, 'letters')
})

t.test('with usage in every chunk, a client that leaves pays by the last one', async (t) => {
  const events = ['ab', 'cd', 'ef'].map((said, i) =>
    chunk({ delta: { content: said } }, { usage: { prompt_tokens: 7, completion_tokens: i + 1 } }),
  )
  const used = async (more: readonly string[], isContinuous: boolean) =>
    fed([...events, ...more], { isContinuous }).used({ promptTokens: 1 })
  t.match(await used([], true), { prompt: 7, completion: 3, estimated: false })
  t.match(
    await used([], false),
    { prompt: 7, completion: 6, estimated: true },
    'unasked, an early one',
  )
  t.match(await used([text('gh')], true), { completion: 8, estimated: true }, 'one that is behind')
})

t.test('a refused answer is charged by its report, or counted as far as it was read', async (t) => {
  const usage = '"usage":{"prompt_tokens":7,"completion_tokens":900}}'
  const head = JSON.stringify({ choices: [{ message: { content: 'abcd' } }] }).slice(0, -1)
  const refused = async (tail: string, bytes: number) => {
    const m = meter()
    m.wasted({ head, tail, bytes, isAnswer: true })
    return await m.used({ promptTokens: 5 })
  }
  t.match(await refused(usage, 4000), { prompt: 7, completion: 900, estimated: false })
  t.match(await refused('', head.length), { prompt: 5, completion: 4, estimated: true })
  t.match(await refused('', head.length * 10), { prompt: 5, completion: 40 }, 'in proportion')
})

t.test('choices that have not ended are reported, each once', async (t) => {
  const m = meter({ choices: 3 })
  t.strictSame(m.unfinished, [0, 1, 2])
  m.event(text('a', 1))
  m.event(finish('stop', 1))
  t.strictSame(m.unfinished, [0, 2])
  t.strictSame(meter().unfinished, [0])
  t.strictSame(fed([finish()]).unfinished, [])
})

t.test('a report that came before most of the content is not the last word', async (t) => {
  const m = meter()
  const usage = { prompt_tokens: 7, completion_tokens: 1 }
  m.event(JSON.stringify({ choices: [{ index: 0, delta: { content: 'a' } }], usage }))
  for (let i = 0; i < 300; i++) m.event(`{"choices":[{"index":0,"delta":{"content":" w${i}"}}]}`)
  m.event('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
  const used = await m.used({ promptTokens: 7 })
  t.ok(used.completion > 300, `${used.completion}`)
})

t.test('a prompt that comes again is not a backend that ran away', async (t) => {
  const text = 'word '.repeat(3000)
  for (const echoed of [0, 15_000]) {
    const m = meter({ outputPerChoice: 5, echoed })
    m.event(`{"choices":[{"index":0,"text":"${text}"}]}`)
    await m.used({ promptTokens: 7 })
    t.equal(m.overran, echoed === 0)
  }
})

t.test('so far: by samples, and never more than may be generated', async (t) => {
  const m = fed([text('abc'), text('defgh')], { outputPerChoice: 6 })
  t.equal(m.soFar({ promptTokens: 9 }).completion, 2, 'two events, eight bytes')
  await m.gauge()
  t.match(m.soFar({ promptTokens: 9 }), { prompt: 9, completion: 6, estimated: true })
  const unbound = fed([text('abc'), text('defgh')])
  await unbound.gauge()
  t.equal(unbound.soFar({ promptTokens: 9 }).completion, 8)
  t.equal((await unbound.used({ promptTokens: 9 })).completion, 8)
})

t.test('so far: all answers of best_of count, up to their bound', async (t) => {
  const options = { choices: 6, tries: 3, outputPerChoice: 100 }
  const m = fed([text('ab', 0), text('cd', 1)], options)
  await m.gauge()
  t.equal(m.soFar({ promptTokens: 1 }).completion, 12)
  const most = fed([text('x'.repeat(500), 0)], options)
  await most.gauge()
  t.equal(most.soFar({ promptTokens: 1 }).completion, 600)
})

t.test('so far: a continuous report counts, and what came behind it', async (t) => {
  const usage = {
    prompt_tokens: 20,
    completion_tokens: 3,
    prompt_tokens_details: { cached_tokens: 8 },
  }
  const reported = chunk({ delta: { content: 'abcdefgh' } }, { usage })
  const m = fed([reported], { isContinuous: true, outputPerChoice: 50 })
  await m.gauge()
  const said = { prompt: 20, cached: 8, completion: 3, estimated: false }
  t.match(m.soFar({ promptTokens: 90 }), said)
  m.event(text('ij'))
  await m.gauge()
  t.match(m.soFar({ promptTokens: 90 }), { prompt: 20, completion: 10, estimated: true })
})

t.test('so far: what generates nothing has no output', async (t) => {
  const m = meter({ choices: 0 })
  await m.gauge()
  t.equal(m.soFar({ promptTokens: 5 }).completion, 0)
})
