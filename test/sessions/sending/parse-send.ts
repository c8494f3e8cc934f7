import t from 'tap'
import { refusalFor } from '../../../src/chat/parameter-check.ts'
import type { Model } from '../../../src/config/config.ts'
import { GatewayError } from '../../../src/errors.ts'
import { scanJson } from '../../../src/http/json/scan.ts'
import { checkSend, ownKeys, parseSend } from '../../../src/sessions/sending/parse-send.ts'
import { readParameters } from '../../../src/sessions/sending/parse-send.ts'
import { randomObject } from '../../fixtures/random-json.ts'
import { seeded } from '../../fixtures/random.ts'

const limits = { attachments: 10, jsonApiBytes: 1024 * 1024, takesFiles: false }
const send = (body: unknown) =>
  parseSend(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)), limits)
const say = (...messages: unknown[]) => send({ messages })

const image = {
  type: 'image_url',
  image_url: { url: `data:image/png;base64,${'A'.repeat(1_200_000)}` },
}
const toolCall = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":' } }

const invalid = (param: string) => ({ code: 'invalid_parameter', param })
const missing = (param: string) => ({ code: 'missing_parameter', param })
const unknown = (param: string) => ({ code: 'unknown_parameter', param })

void t.test('content is one turn of the user', async (t) => {
  const sent = send({ content: 'Hi' })
  t.strictSame(sent.turns, [{ role: 'user', content: 'Hi' }])
  t.match(sent, { onDisconnect: 'continue', unlisted: [], parameters: new Map() })
  t.strictSame([sent.model, sent.stream, sent.maxTokens], [undefined, undefined, Infinity])
})

void t.test('messages are turns, with calls and their results', async (t) => {
  const turns = [
    { role: 'user', content: [{ type: 'text', text: 'Hi' }], name: 'Ann' },
    { role: 'assistant', content: null, tool_calls: [toolCall] },
    { role: 'tool', content: '', tool_call_id: 'call_1' },
  ]
  t.strictSame(say(...turns).turns, turns)
})

void t.test('an answer of an SDK can be sent back whole', async (t) => {
  const answer = {
    role: 'assistant',
    content: 'Hello',
    refusal: null,
    annotations: [],
    reasoning_content: 'hm',
  }
  t.strictSame(say(answer, { role: 'user', content: 'Hi' }).turns[0], {
    role: 'assistant',
    content: 'Hello',
  })
})

void t.test('the fields of the message are read', async (t) => {
  const sent = send({
    content: 'Hi',
    model: 'm',
    stream: false,
    on_disconnect: 'cancel',
    max_tokens: 5,
    top_k: 4,
  })
  t.match(sent, { model: 'm', stream: false, onDisconnect: 'cancel', maxTokens: 5 })
  t.strictSame(
    [...sent.parameters],
    [
      ['max_tokens', '5'],
      ['top_k', '4'],
    ],
  )
  const nulls = send({
    content: 'Hi',
    messages: null,
    model: null,
    stream: null,
    on_disconnect: null,
  })
  t.match(nulls, { onDisconnect: 'continue' })
  t.strictSame([nulls.model, nulls.stream], [undefined, undefined])
})

void t.test('a body with no content, or with both forms, is refused', async (t) => {
  t.throws(() => send({}), missing('content'))
  t.throws(() => send({ content: null }), missing('content'))
  t.throws(() => send({ content: 'Hi', messages: [] }), invalid('messages'))
  t.throws(() => send({ content: '' }), invalid('content'))
  t.throws(() => send({ messages: 'Hi' }), invalid('messages'))
  t.throws(() => say(), invalid('messages'))
  t.throws(
    () => say({ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }),
    invalid('messages'),
  )
  t.throws(
    () => say(...Array<unknown>(257).fill({ role: 'user', content: 'a' })),
    invalid('messages'),
  )
})

void t.test('a bad turn is refused with its path', async (t) => {
  const user = { role: 'user', content: 'Hi' }
  t.throws(() => say(user, null), invalid('messages[1]'))
  t.throws(() => say({ content: 'Hi' }), missing('messages[0].role'))
  for (const role of ['system', 'developer', 'function', 'User', 7]) {
    t.throws(() => say({ role, content: 'Hi' }), invalid('messages[0].role'))
  }
  t.throws(() => say({ role: 'system', content: 'x' }), { message: /instructions/ })
  t.throws(() => say({ role: 'user' }), missing('messages[0].content'))
  t.throws(() => say({ ...user, tool_calls: [] }), unknown('messages[0].tool_calls'))
  t.throws(() => say({ ...user, name: '' }), invalid('messages[0].name'))
  t.throws(() => say({ role: 'tool', content: 'x' }), missing('messages[0].tool_call_id'))
  t.throws(() => say({ role: 'tool', tool_call_id: 'c' }), missing('messages[0].content'))
  t.throws(
    () => say({ role: 'tool', content: '', tool_call_id: 'c', x: 1 }),
    unknown('messages[0].x'),
  )
  t.throws(() => say({ role: 'assistant', content: '' }, user), missing('messages[0].content'))
  t.throws(() => say({ role: 'assistant', content: 'a', x: 1 }, user), unknown('messages[0].x'))
  t.throws(
    () => say({ role: 'assistant', tool_calls: [] }, user),
    invalid('messages[0].tool_calls'),
  )
  const remote = { type: 'image_url', image_url: { url: 'http://example.com/a.png' } }
  t.throws(
    () => say({ role: 'user', content: [{ type: 'text', text: 'a' }, remote] }),
    invalid('messages[0].content[1].image_url.url'),
  )
})

void t.test('a bad field is refused with its name', async (t) => {
  t.throws(() => send({ content: 'a', model: 7 }), invalid('model'))
  t.throws(() => send({ content: 'a', model: '' }), invalid('model'))
  t.throws(() => send({ content: 'a', stream: 'yes' }), invalid('stream'))
  t.throws(() => send({ content: 'a', on_disconnect: 'stop' }), invalid('on_disconnect'))
  t.throws(() => send({ content: 'a', n: 2 }), invalid('n'))
  for (const key of ['Content', 'MESSAGES', 'On_Disconnect', 'ſtream', 'Max_Tokens']) {
    t.throws(() => send({ content: 'a', [key]: 1 }), { code: 'invalid_json' }, key)
  }
  t.throws(() => send('{"content":"a","content":"b"}'), { code: 'invalid_json' })
})

void t.test('1 MiB beside images is taken, more is not', async (t) => {
  const room = limits.jsonApiBytes - JSON.stringify({ content: '' }).length
  t.ok(send({ content: 'x'.repeat(room) }))
  t.throws(() => send({ content: 'x'.repeat(room + 1) }), { code: 'body_too_large' })
  t.throws(() => send({ content: 'x', user: 'x'.repeat(room) }), { code: 'body_too_large' })
  const images = { role: 'user', content: Array(8).fill(image) as unknown[] }
  t.ok(say(images, images))
})

void t.test('with a store, files and large images are taken and looked at', async (t) => {
  const stored = (body: object) =>
    parseSend(Buffer.from(JSON.stringify(body)), { ...limits, takesFiles: true })
  const file = { type: 'file', file: { file_id: 'file_1' } }
  const user = (content: unknown[]) => ({ role: 'user', content })
  const at = 'messages[1].content[0].file.file_id'
  const sent = stored({ messages: [user([{ type: 'text', text: 'a' }]), user([file])] })
  t.strictSame(sent.turns[1]?.content, [{ ...file, at }])
  t.match(stored({ content: [file] }).turns[0]?.content, [{ at: 'content[0].file.file_id' }])
  t.throws(() => stored({ content: [image] }), invalid('content[0].image_url.url'))
  const gif = { type: 'image_url', image_url: { url: 'data:image/gif;base64,R0lGODlhAQAB' } }
  const large = { url: gif.image_url.url + 'A'.repeat(4_000_000) }
  t.ok(stored({ content: [{ ...gif, image_url: large }] }))
  t.throws(() => stored({ content: Array(11).fill(gif) }), invalid('content'))
  t.throws(() => send({ content: [file] }), { code: 'unsupported_attachment' })
})

void t.test('content that the model does not take is refused', async (t) => {
  const model = (accepts: readonly string[], extraParameters: readonly string[]) =>
    ({ accepts, extraParameters, remoteMedia: [] as readonly string[] }) as Model
  const seeing = say({ role: 'user', content: [image] }, { role: 'user', content: 'What is it?' })
  checkSend(seeing, model(['text', 'image'], []))
  t.throws(() => checkSend(seeing, model(['text'], [])), { code: 'unsupported_attachment' })
  const odd = send({ content: 'a', priority: 1 })
  checkSend(odd, model([], ['priority']))
  t.throws(() => checkSend(odd, model([], [])), unknown('priority'))
})

void t.test('whatever is sent is taken or refused, never an internal error', async (t) => {
  const random = seeded(4711)
  const keys = ['content', 'messages', 'model', 'stream', 'n', 'on_disconnect', 'store', 'tools']
  const inner = ['role', 'content', 'type', 'text', 'image_url', 'tool_calls', 'tool_call_id']
  const codes = new Set<string>()
  for (let i = 0; i < 3000; i++) {
    const body =
      i % 2 ? randomObject(random, keys) : `{"messages":[${randomObject(random, inner)}]}`
    try {
      send(body)
    } catch (error) {
      if (!(error instanceof GatewayError)) return t.fail(body)
      codes.add(error.code)
    }
  }
  t.ok(codes.has('invalid_parameter') && codes.has('missing_parameter'))
})

const read = (body: string) => readParameters(scanJson(Buffer.from(body), ownKeys))
const refused = (param: string) => ({ code: 'invalid_parameter', param })

void t.test('a parameter goes on as it was written', async (t) => {
  const { parameters, unlisted } = read(
    '{"content":"Hi","seed" : 12345678901234567890 ,"stop":["\\u00e9", "报"],"temperature":0.10,"user":null}',
  )
  t.strictSame(
    [...parameters],
    [
      ['seed', '12345678901234567890'],
      ['stop', '["\\u00e9", "报"]'],
      ['temperature', '0.10'],
      ['user', 'null'],
    ],
  )
  t.strictSame(unlisted, [])
})

void t.test('what the gateway writes itself does not go on', async (t) => {
  const body =
    '{"messages":[],"model":"m","stream":true,"on_disconnect":"cancel","n":1,"store":true}'
  t.equal(read(body).parameters.size, 0)
  t.equal(read('{"n":null,"store":null,"metadata":null,"functions":null}').parameters.size, 0)
})

void t.test('what a session can not have is refused', async (t) => {
  for (const n of ['2', '0', '"1"', '1.5']) t.throws(() => read(`{"n":${n}}`), refused('n'))
  t.throws(() => read('{"best_of":3}'), refused('best_of'))
  t.throws(() => read('{"store":"yes"}'), refused('store'))
  t.throws(() => read('{"stream_options":[]}'), refused('stream_options'))
  t.throws(() => read('{"modalities":["text","audio"]}'), refused('modalities'))
  t.equal(read('{"modalities": [ "text" ]}').parameters.get('modalities'), '[ "text" ]')
  for (const key of ['audio', 'functions', 'function_call', 'metadata']) {
    t.throws(() => read(`{"${key}":{}}`), refused(key))
  }
})

void t.test('the lower of two maximums counts', async (t) => {
  t.equal(read('{"max_tokens":7,"max_completion_tokens":5}').maxTokens, 5)
  t.equal(read('{"max_tokens":null}').maxTokens, Infinity)
  t.equal(read('{"max_tokens":1e300}').maxTokens, Number.MAX_SAFE_INTEGER)
  for (const value of ['0', '1.5', '"7"', '-1', '[]']) {
    t.throws(() => read(`{"max_tokens":${value}}`), refused('max_tokens'))
  }
})

void t.test('what only some models know is theirs to allow', async (t) => {
  const { unlisted, parameters } = read('{"top_k":4,"constructor":1,"service_tier":"flex"}')
  t.strictSame(
    unlisted.map(({ name }) => name),
    ['constructor', 'service_tier'],
  )
  t.equal(parameters.get('top_k'), '4')
  const refusal = (...extraParameters: string[]) =>
    refusalFor({ unlisted, addresses: [] }, { extraParameters, remoteMedia: [] })
  t.equal(refusal('constructor', 'service_tier'), undefined)
  t.equal(refusal('*'), undefined)
  t.match(refusal('service_tier'), { code: 'unknown_parameter', param: 'constructor' })
  t.match(refusal('constructor'), { code: 'unknown_parameter', param: 'service_tier' })
})

void t.test('what is bounded on /v1 is bounded here', async (t) => {
  t.throws(() => read('{"logprobs":-1}'), refused('logprobs'))
  t.throws(() => read('{"n_predict":-1}'), { code: 'unknown_parameter', param: 'n_predict' })
  const param = 'stream_options.Include_Usage'
  t.throws(() => read('{"stream_options":{"include_usage":true,"Include_Usage":false}}'), {
    code: 'unknown_parameter',
    param,
  })
})

void t.test('a huge body is checked for JSON where it goes on', async (t) => {
  const long = 'x'.repeat(1 << 20)
  t.throws(() => read(`{"user":"${long}","seed":maybe}`), { code: 'invalid_json' })
})
