import t from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import type { ErrorCode } from '../../../src/errors.ts'
import { parseStored } from '../../../src/sessions/message.ts'
import { Assembly, ended } from '../../../src/sessions/streams/assembly.ts'
import { statusAfter, statusOf, usedBy } from '../../../src/sessions/streams/assembly.ts'
import { seeded } from '../../fixtures/random.ts'
import { randomObject } from '../../fixtures/random-json.ts'
import { eventsOf } from '../../fixtures/sse-events.ts'
import { rowOf, said } from '../../fixtures/stream.ts'

const latin1 = (text: string) => Buffer.from(text).toString('latin1')
const chunk = (delta: unknown, finish_reason: string | null = null) =>
  latin1(JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] }))
const assemble = (...events: string[]) => {
  const assembly = new Assembly()
  for (const data of events) assembly.add(data)
  return assembly
}
const ofDeltas = (...deltas: unknown[]) => assemble(...deltas.map((delta) => chunk(delta))).result()
const call = (id: string, name: string, args: string) => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})

const captures = ['llama', 'llamapy', 'tf'].map((server) => `${server}-stream-usage-on.sse`)
captures.push('ollama-stream-usage-absent.sse', 'llama-toolcall-stream.sse')

void t.test('text is put together, how it finished is known', async (t) => {
  const events = [
    chunk({ role: 'assistant', content: '' }),
    chunk({ content: 'Hél' }),
    chunk({ content: 'lo 报 😀\n' }),
    chunk({}, 'stop'),
    '{"choices":[],"usage":{"prompt_tokens":1}}',
    '[DONE]',
  ]
  t.strictSame(assemble(...events).result(), {
    content: 'Héllo 报 😀\n',
    finish_reason: 'stop',
  })
  t.strictSame(assemble().result(), { content: null, finish_reason: null })
})

void t.test('characters that come as two escapes are joined', async (t) => {
  const half = (escape: string) => `{"choices":[{"delta":{"content":"${escape}"}}]}`
  t.equal(assemble(half('\\ud83d'), half('\\ude00')).result().content, '😀')
})

void t.test('reasoning has two names, and is taken once', async (t) => {
  const both = { reasoning: 'a', reasoning_content: 'a' }
  t.match(ofDeltas(both, { reasoning: 'b' }, { reasoning_content: 'c' }), {
    content: null,
    reasoning: 'abc',
  })
})

void t.test('a refusal is what it said', async (t) => {
  t.match(ofDeltas({ refusal: 'I ' }, { refusal: 'can not' }), {
    content: 'I can not',
  })
})

void t.test('calls of tools are put together by their index', async (t) => {
  const piece = (index: number, rest: object) => ({ tool_calls: [{ index, ...rest }] })
  const { tool_calls, content } = ofDeltas(
    piece(0, { id: 'a', type: 'function', function: { name: 'f', arguments: '' } }),
    piece(0, { function: { arguments: '{"x"' } }),
    piece(1, { id: 'b', type: 'function', function: { name: 'g', arguments: '{}' } }),
    piece(0, { function: { arguments: ':1}' } }),
  )
  t.strictSame(tool_calls, [call('a', 'f', '{"x":1}'), call('b', 'g', '{}')])
  t.equal(content, null)
})

void t.test('servers with careless indexes, ids and names are understood', async (t) => {
  const whole = (id: string, index?: number) => ({
    ...(index !== undefined && { index }),
    id,
    function: { name: 'f', arguments: '{}' },
  })
  const two = [call('a', 'f', '{}'), call('b', 'f', '{}')]
  // Without an index, or with index 0 for all; each call is whole.
  t.strictSame(ofDeltas({ tool_calls: [whole('a'), whole('b')] }).tool_calls, two)
  t.strictSame(ofDeltas({ tool_calls: [whole('a', 0), whole('b', 0)] }).tool_calls, two)
  // Without an index, in pieces.
  const rest = { tool_calls: [{ function: { arguments: '1' } }] }
  t.strictSame(ofDeltas({ tool_calls: [whole('a')] }, rest).tool_calls, [call('a', 'f', '{}1')])
  // Id and name come again with each piece.
  const again = { tool_calls: [whole('a', 0)] }
  t.strictSame(ofDeltas(again, again).tool_calls, [call('a', 'f', '{}{}')])
  // Without any id; a call without a name is none.
  const nameless = { index: 5, id: 'x', function: { arguments: '{}' } }
  const unknown = { tool_calls: [{ index: 4, function: { name: 'f', arguments: '' } }, nameless] }
  t.strictSame(ofDeltas(unknown).tool_calls, [call('call_0', 'f', '')])
})

void t.test('no backend makes more calls than one message may have', async (t) => {
  const calls = Array.from({ length: 1000 }, (_, i) => ({
    index: i * 1e6,
    function: { name: 'f' },
  }))
  t.equal(ofDeltas({ tool_calls: calls }).tool_calls?.length, 128)
})

void t.test('choices other than the first are ignored', async (t) => {
  const { content } = assemble('{"choices":[{"index":1,"delta":{"content":"b"}}]}').result()
  t.equal(content, null)
})

void t.test('anything but a chunk adds nothing and never throws', async (t) => {
  const odd = ['', '{', 'null', '7', '"x"', '[]', '{}', '{"choices":{}}', '{"choices":[null,7,[]]}']
  const deltas = [null, 7, 'x', [], { content: 7 }, { content: {} }, { tool_calls: {} }]
  const calls = [null, 7, {}, { index: -1 }, { index: 'x', id: 7, function: 'f' }, { id: {} }]
  const events = [
    ...odd,
    ...deltas.map((delta) => chunk(delta)),
    chunk({ tool_calls: calls }),
    '{"choices":[{"delta":{"__proto__":{"content":"x"}},"finish_reason":7}]}',
    '{"error":{"message":"no"}}',
    '\xff\xfe{"choices"',
  ]
  t.strictSame(assemble(...events).result(), { content: null, finish_reason: null })
  const random = seeded(4711)
  const keys = ['content', 'reasoning', 'tool_calls', 'refusal']
  const assembly = new Assembly()
  for (let i = 0; i < 1000; i++) {
    assembly.add(`{"choices":[{"delta":${latin1(randomObject(random, keys))}}]}`)
  }
  t.type(assembly.result().content, 'string')
})

void t.test('it can be stored at any event and continued from there', async (t) => {
  const tools = ['a', 'b'].map((id, index) => ({
    index,
    id,
    function: { name: id, arguments: '{' },
  }))
  const rest = tools.map(({ index }) => ({ index, function: { arguments: '}' } }))
  const called = [
    { tool_calls: tools },
    { reasoning: 'hm' },
    { tool_calls: rest },
    { refusal: 'no' },
  ]
  const streams = captures.map((capture) => ({ capture, events: eventsOf(capture) }))
  streams.push({ capture: 'calls', events: called.map((delta) => chunk(delta, 'stop')) })
  for (const { capture, events } of streams) {
    const whole = assemble(...events)
    for (let cut = 0; cut <= events.length; cut += 1 + (events.length >> 5)) {
      const resumed = Assembly.from(assemble(...events.slice(0, cut)).snapshot())
      for (const data of events.slice(cut)) resumed.add(data)
      t.strictSame(resumed.result(), whole.result(), `${capture} at ${cut}`)
    }
  }
})

void t.test('chunks that differ in their text alone are read as any others are', async (t) => {
  const random = seeded(20)
  const pick = <T>(all: readonly T[]): T => all[random(all.length)] as T
  const texts = ['a', 'Hi', ',', ':', ' ', '', 'm', 'id', 'content', 'index', 'é', '报', '😀']
  texts.push('"', '\\', '\n', '"}', '","role":"x', '\\u0041', '\u007f', 'stop')
  const make = (): object => {
    const name = pick([
      'content',
      'content',
      'content',
      'reasoning',
      'reasoning_content',
      'refusal',
    ])
    const delta = { [name]: pick(texts), ...(random(10) === 0 && { content: pick(texts) }) }
    const tool_calls = [{ index: 0, id: 'c', function: { name: 'f', arguments: pick(texts) } }]
    const isCall = random(20) === 0
    const choice = {
      index: random(20) === 0 ? 1 : 0,
      delta: isCall ? { ...delta, tool_calls } : delta,
      finish_reason: random(20) === 0 ? pick(['stop', 'a', '']) : null,
    }
    return {
      id: pick(['m', 'm', 'm', 'é']),
      choices: random(10) === 0 ? [choice, choice] : [choice],
    }
  }
  for (let turn = 0; turn < 200; turn++) {
    const assembly = new Assembly()
    // Each chunk is read alone by an assembly that has seen no other, and goes on with a snapshot.
    let kept = ''
    for (let n = 0; n < 40; n++) {
      const text = JSON.stringify(make(), undefined, pick([0, 0, 0, 1]))
      const isStrange = random(20) === 0
      const data = latin1(isStrange ? text.replace('"a"', '"\\u0061"') : text)
      assembly.add(data)
      const alone = Assembly.from(kept)
      alone.add(data)
      kept = alone.snapshot()
    }
    t.equal(assembly.snapshot(), kept)
  }
})

void t.test(
  'bytes that are no UTF-8 are read alike, whether a chunk is known or not',
  async (t) => {
    for (const bytes of ['\xe6\x8a', '\xff', '\x80\x80', 'é', '\x00', '\x1f', '\x7f']) {
      const data = chunk({ content: 'x' }).replace('"x"', `"${bytes}"`)
      t.strictSame(assemble(chunk({ content: 'Hi' }), data, data).result(), {
        ...assemble(data, data).result(),
        content: `Hi${assemble(data, data).result().content ?? ''}`,
      })
    }
  },
)

void t.test('a text is not taken for another one that says the same', async (t) => {
  const ofOne = (id: string, delta: string) => `{"id":"${id}","choices":[{"delta":${delta}}]}`
  const escaped = String.raw`{"content":"\u0061"}`
  t.equal(assemble(ofOne('a', escaped), ofOne('b', escaped)).result().content, 'aa')
  const both = (content: string) => ofOne('m', JSON.stringify({ content, reasoning: 'y' }))
  t.match(assemble(both('x'), both('z')).result(), { content: 'xz', reasoning: 'yy' })
  const two = (second: string) =>
    `{"choices":[{"delta":{"content":"x"}},{"delta":{"content":"${second}"}}]}`
  t.equal(assemble(two('y'), two('z')).result().content, 'xyxz')
  // No UTF-8 is read as U+FFFD, which also stands in another place.
  const unsound = String.raw`{"content":"\xff"}`.replace(String.raw`\xff`, '\xff')
  const unsounds = assemble(ofOne(latin1('\ufffd'), unsound), ofOne('not said', unsound))
  t.equal(unsounds.result().content, '\ufffd\ufffd')
  const calling = (content: string) =>
    chunk({ content, tool_calls: [{ function: { name: 'f', arguments: '1' } }] })
  t.match(assemble(calling('x'), calling('z')).result().tool_calls, [
    { function: { arguments: '11' } },
  ])
})

void t.test('an invalid snapshot is an empty assembly', async (t) => {
  const empty = new Assembly().result()
  const odd = ['', '{', '7', '{"calls":{},"open":[7,[0,9],["x",0]],"finish":1}', '{"content":1}']
  for (const snapshot of odd) t.strictSame(Assembly.from(snapshot).result(), empty)
  const many = JSON.stringify({ calls: Array(1000).fill({ id: 'a', name: 'f' }) })
  t.equal(Assembly.from(many).result().tool_calls?.length, 128)
})

void t.test('long texts are kept whole, character by character', async (t) => {
  const assembly = assemble(chunk({ content: 'é'.repeat(5000), reasoning: 'x' }))
  for (let i = 0; i < 5000; i++) assembly.add(chunk({ content: 'ab' }))
  t.equal(assembly.result().content, 'é'.repeat(5000) + 'ab'.repeat(5000))
})

void t.test('what real servers sent is put together as they meant it', async (t) => {
  for (const capture of captures) {
    const text = Buffer.from(eventsOf(capture).join('\n'), 'latin1').toString()
    // All chunks but usage have one choice, so a simple reading of them can be compared.
    const pieces = [...text.matchAll(/"delta":\s?\{[^}]*?"content":\s?("(?:[^"\\]|\\.)*")/g)]
    const plain = pieces.map(([, piece]) => JSON.parse(piece ?? '') as string).join('')
    const { content, finish_reason } = assemble(...eventsOf(capture)).result()
    t.ok(plain)
    t.equal(content, plain, capture)
    t.type(finish_reason, 'string', capture)
  }
})

const tokens = { prompt: 3, cached: 1, completion: 4 }
const usage = { ...tokens, estimated: true }

t.test('a final row has the words and the cost, and no owner', async (t) => {
  const draft = rowOf({ hold: 'h' })
  const finish = JSON.stringify({ choices: [{ delta: {}, finish_reason: 'stop' }] })
  const how = { said: assemble(said('Grüße'), finish), status: 'completed' } as const
  const row = ended(draft, { ...how, cost: 11, usage })
  t.match(row, {
    id: draft.id,
    content: 'Grüße',
    finish_reason: 'stop',
    status: 'completed',
    cost: 11,
    usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7, estimated: true },
    error: null,
    created_at: draft.created_at,
  })
  t.ok(Number(row.completed_at) > draft.created_at - 1e9)
  t.notOk('hold' in row)
  t.notOk('reasoning' in row)
  t.notOk('tool_calls' in row)
  t.same(parseStored(JSON.stringify(row)), row, 'a row that can be read')
})

t.test('reasoning and tool calls are kept too; without text the content is null', async (t) => {
  const call = { index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
  const delta = { reasoning_content: 'hm', tool_calls: [call] }
  const one = assemble(JSON.stringify({ choices: [{ delta }] }))
  const row = ended(rowOf(), { said: one, status: 'incomplete', cost: 0 })
  t.match(row, { content: null, reasoning: 'hm', tool_calls: [{ id: 'a' }], usage: null, cost: 0 })
})

t.test('an error is stored as it is answered; a cancel is no error', async (t) => {
  const error = new GatewayError('upstream_incomplete')
  const one = ended(rowOf(), { said: assemble(), status: 'incomplete', error, cost: 0 })
  t.match(one.error, { code: 'upstream_incomplete', type: error.type, param: null })
  t.equal(one.error?.message, error.message)
  const cancelled = new GatewayError('message_cancelled')
  const how = { said: assemble(), status: 'cancelled', error: cancelled, cost: 0 } as const
  t.equal(ended(rowOf(), how).error, null)
})

t.test('each end of a relay has its status', async (t) => {
  t.same(statusOf({ kind: 'complete' }), { status: 'completed' })
  t.same(statusOf({ kind: 'length', cut: true }), { status: 'completed' })
  t.same(statusOf({ kind: 'left' }), { status: 'cancelled' })
  const relayed = statusOf({ kind: 'relayed-error', event: { event: undefined, data: '{}' } })
  t.match(relayed, { status: 'failed', error: { code: 'upstream_error', source: 'backend' } })
  const statuses: Partial<Record<ErrorCode, string>> = {
    message_cancelled: 'cancelled',
    upstream_incomplete: 'incomplete',
    server_draining: 'incomplete',
    upstream_timeout: 'failed',
    upstream_error: 'failed',
    account_suspended: 'failed',
    ledger_unavailable: 'failed',
  }
  for (const [code, status] of Object.entries(statuses)) {
    const error = new GatewayError(code as ErrorCode)
    t.equal(statusAfter(error), status, code)
    t.same(statusOf({ kind: 'failed', error }), { status, error }, code)
  }
})

t.test('usage is what the settlement noted, and none where nothing was', async (t) => {
  const facts = { tokens, cost: 9, estimated: true }
  t.same(usedBy({ ...facts, basis: 'counted' }), { cost: 9, usage })
  t.same(usedBy({ ...facts, basis: 'none' }), { cost: 9, usage: undefined })
  t.same(usedBy({}), { cost: 0, usage: undefined })
})
