import t from 'tap'
import { z } from 'zod'
import type { Plugin } from '../../../src/plugin.ts'
import { startBackend } from '../../fixtures/backend.ts'
import { chat as model } from '../../fixtures/backend-model.ts'
import { sse } from '../../fixtures/backend-scripts.ts'
import { Gate } from '../../fixtures/gate.ts'
import { startGateway } from '../../fixtures/gateway.ts'
import {
  ask,
  chatOf,
  chatYaml,
  messageIdOf,
  refusal,
  startChat,
} from '../../fixtures/session-chat.ts'
import type { Chat } from '../../fixtures/session-chat.ts'
import { parseStream } from '../../fixtures/sse-grammar.ts'
import { eventually } from '../../fixtures/until.ts'

const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const delta = (value: object) => data({ choices: [{ index: 0, delta: value }] })
const finish = (reason: string) =>
  data({ choices: [{ index: 0, delta: {}, finish_reason: reason }] }) + 'data: [DONE]\n\n'

/** The body of the backend's nth request. */
function askedBody({ backend }: Chat, index: number): Record<string, unknown> {
  return JSON.parse(backend.requests[index]?.body.toString() ?? '') as Record<string, unknown>
}

const gif = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='

t.test('the headers are those of docs/api.md, and no others', async (t) => {
  const chat = await startChat(t)
  const headers = { 'X-Client-Request-Id': 'mine-1' }
  const live = await chat.send(chat.sessionId, 'Hi', { headers })
  await live.end()
  const [user, answer] = await chat.messages(chat.sessionId)
  const path = `/api/chat/sessions/${chat.sessionId}/messages/${answer?.id}`
  t.equal(live.status, 200)
  t.match(live.headers, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
    'x-message-id': answer?.id,
    'x-user-message-id': user?.id,
    'content-location': path,
    location: `${path}/stream`,
    'x-request-id': /^req_[0-9a-f]{32}$/,
    'x-client-request-id': 'mine-1',
    'x-ratelimit-limit-requests': /^\d+$/,
    'x-ratelimit-remaining-tokens': /^\d+$/,
  })
  for (const none of ['idempotent-replayed', 'content-length', 'content-encoding', 'etag']) {
    t.equal(live.headers[none], undefined, none)
  }
  t.match(user, { role: 'user', content: 'Hi', status: 'completed', usage: null, cost: null })
  t.match(answer, { role: 'assistant', content: 'w0 w1 w2 w3 w4 ', status: 'completed' })
  t.ok((user?.id ?? '') < (answer?.id ?? ''), 'in order')
})

t.test('without a stream, the answer is the message as it is read later', async (t) => {
  const chat = await startChat(t)
  const live = await chat.send(chat.sessionId, { content: 'Hi', stream: false })
  const body = await live.json()
  t.equal(live.status, 200)
  t.match(live.headers, {
    'content-type': /^application\/json/,
    'cache-control': 'no-store',
    'x-message-id': body['id'],
    'x-user-message-id': /^msg_/,
    'content-location': `/api/chat/sessions/${chat.sessionId}/messages/${String(body['id'])}`,
  })
  t.strictSame(body, await chat.message(chat.sessionId, String(body['id'])))
  t.match(body, { object: 'chat.message', session_id: chat.sessionId, status: 'completed' })
  t.match(askedBody(chat, 0), { stream: true, stream_options: { include_usage: true } })
})

t.test('`stream` in the body wins over Accept, which decides where it is absent', async (t) => {
  const chat = await startChat(t)
  const kinds: readonly (readonly [object, string | undefined, RegExp])[] = [
    [{}, undefined, /event-stream/],
    [{}, '*/*', /event-stream/],
    [{}, 'application/json', /json/],
    [{}, 'Application/JSON', /json/],
    [{}, 'text/event-stream', /event-stream/],
    [{}, 'text/html', /event-stream/],
    [{ stream: null }, 'application/json', /json/],
    [{ stream: true }, 'application/json', /event-stream/],
    [{ stream: false }, 'text/event-stream', /json/],
  ]
  for (const [fields, accept, type] of kinds) {
    const headers: Record<string, string> = accept === undefined ? {} : { accept }
    const live = await chat.send(chat.sessionId, { content: 'Hi', ...fields }, { headers })
    t.match(live.headers['content-type'], type, `${JSON.stringify(fields)} ${accept}`)
    await live.end()
  }
})

t.test('both forms of a body mean the same; the backend gets all the conversation', async (t) => {
  const chat = await startChat(t)
  const id = await chat.session({ instructions: 'Be brief.' })
  await (await chat.send(id, { content: 'one', temperature: 0.5, seed: 7 })).end()
  await (await chat.send(id, { messages: [{ role: 'user', content: 'two' }] })).end()
  const parts = [{ type: 'text', text: 'three' }]
  await (await chat.send(id, { content: parts })).end()
  const said = { role: 'assistant', content: 'w0 w1 w2 w3 w4 ' }
  t.strictSame(askedBody(chat, 2)['messages'], [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'one' },
    said,
    { role: 'user', content: 'two' },
    said,
    { role: 'user', content: parts },
  ])
  t.match(askedBody(chat, 0), { model: 'm', temperature: 0.5, seed: 7 })
  t.notOk('content' in askedBody(chat, 0))
})

t.test('a tool is called, answered, and the conversation continues with both', async (t) => {
  const call = (args: string, more: object = {}) =>
    delta({ tool_calls: [{ index: 0, function: { arguments: args }, ...more }] })
  const script = sse([
    delta({ role: 'assistant', content: null }),
    call('', { id: 'call_1', type: 'function', function: { name: 'add', arguments: '' } }),
    call('{"a":1,'),
    call('"b":"€"}'),
    delta({
      tool_calls: [
        { index: 1, id: 'call_2', type: 'function', function: { name: 'now', arguments: '{}' } },
      ],
    }),
    finish('tool_calls'),
  ])
  const chat = await startChat(t, { script })
  const tools = [{ type: 'function', function: { name: 'add', parameters: {} } }]
  await (await chat.send(chat.sessionId, { content: 'add', tools })).end()
  const calls = [
    { id: 'call_1', type: 'function', function: { name: 'add', arguments: '{"a":1,"b":"€"}' } },
    { id: 'call_2', type: 'function', function: { name: 'now', arguments: '{}' } },
  ]
  const [, answer] = await chat.messages(chat.sessionId)
  t.match(answer, { status: 'completed', finish_reason: 'tool_calls', content: null })
  t.strictSame(answer?.tool_calls, calls)

  chat.backend.on(model())
  const results = [
    { role: 'tool', tool_call_id: 'call_1', content: '1€' },
    { role: 'tool', tool_call_id: 'call_2', content: 'noon' },
  ]
  await (await chat.send(chat.sessionId, { messages: results, tools })).end()
  t.strictSame(askedBody(chat, 1)['messages'], [
    { role: 'user', content: 'add' },
    { role: 'assistant', content: null, tool_calls: calls },
    ...results,
  ])
  t.match((await chat.messages(chat.sessionId))[2], { role: 'tool', tool_call_id: 'call_1' })
})

t.test('images reach a model that takes them; another model gets no request', async (t) => {
  const content = [
    { type: 'text', text: 'What?' },
    { type: 'image_url', image_url: { url: gif } },
  ]
  const seeing = await startChat(t, { model: 'accepts: [text, image]' })
  const live = await seeing.send(seeing.sessionId, { content })
  t.equal(live.status, 200)
  await live.end()
  t.strictSame(askedBody(seeing, 0)['messages'], [{ role: 'user', content }])
  const blind = await startChat(t)
  const answer = await blind.send(blind.sessionId, { content })
  t.same(await refusal(answer), [400, 'unsupported_attachment'])
  const file = [{ type: 'file', file: { file_id: `file_${'0'.repeat(32)}` } }]
  const [status] = await refusal(await seeing.send(seeing.sessionId, { content: file }))
  t.ok(status === 400 || status === 404)
  t.equal(blind.backend.requests.length, 0)
})

t.test("a model's extra parameters are passed on as they were written", async (t) => {
  const chat = await startChat(t, { model: 'extra_parameters: [priority]' })
  const body = '{"content":"a","priority":123456789012345678901,"n":1,"store":true}'
  await (await chat.send(chat.sessionId, undefined, { body })).end()
  t.match(chat.backend.requests[0]?.body.toString(), '"priority":123456789012345678901')
  const other = '{"content":"a","chat_template":""}'
  t.same(await refusal(await chat.send(chat.sessionId, undefined, { body: other })), [
    400,
    'unknown_parameter',
  ])
})

t.test('a session answers one message at a time, and says which', async (t) => {
  const gate = new Gate()
  const chat = await startChat(t, { script: model({ gate }) })
  const other = await chat.another()
  gate.next(3)
  const live = await chat.send(chat.sessionId)
  for (const on of [chat.gateway, other]) {
    const busy = await chat.send(chat.sessionId, 'Me too', {}, on)
    t.equal(busy.headers['x-should-retry'], 'false')
    const { error, ...rest } = await busy.json()
    t.equal(busy.status, 409)
    t.match(error, { code: 'session_busy', type: 'conflict_error' })
    t.match(JSON.stringify({ error, ...rest }), messageIdOf(live), 'the body names it')
  }
  t.equal((await chat.messages(chat.sessionId)).length, 2)
  gate.open()
  await live.end()
  t.equal((await chat.send(chat.sessionId, 'Now', {}, other)).status, 200)
  t.equal(chat.backend.requests.length, 2)
})

t.test('a POST with Last-Event-ID resumes, and never generates', async (t) => {
  const chat = await startChat(t)
  const once = { 'Idempotency-Key': 'one' }
  const live = await chat.send(chat.sessionId, 'Hi', { headers: once })
  const message = messageIdOf(live)
  const whole = await live.end()
  const last = parseStream(whole, { first: 0, message }).frames.length - 1
  const bodies = ['Hi', 'other', { messages: [] }, '{', undefined]
  for (const headers of [{}, once, { 'Idempotency-Key': 'new' }]) {
    const at = (id: string, body: unknown = 'Hi') =>
      chat.send(chat.sessionId, body, { headers: { ...headers, 'Last-Event-ID': id } })
    const resumed = await at(`${message}:1`)
    t.equal(resumed.status, 200)
    t.match(resumed.headers, { 'x-message-id': message })
    parseStream(await resumed.end(), { first: 2, message })
    t.equal((await at(`${message}:${last}`)).status, 204)
    t.same(await refusal(await at(`${message}:${last + 1}`)), [400, 'invalid_last_event_id'])
    t.same(await refusal(await at('x')), [400, 'invalid_last_event_id'])
    t.equal((await at(`msg_${'0'.repeat(32)}:1`)).status >= 400, true)
    for (const body of bodies) t.ok((await at(`${message}:1`, body)).status < 500)
  }
  t.equal(chat.backend.requests.length, 1)
  t.equal((await chat.messages(chat.sessionId)).length, 2)
})

t.test('on the other mount, a send is the same', async (t) => {
  const chat = await startChat(t)
  const url = `${chat.gateway.url}/v1/api/chat/sessions/${chat.sessionId}/messages`
  const live = await ask(t, url, { key: chat.key, body: { content: 'Hi' } })
  t.equal(parseStream(await live.end(), { message: messageIdOf(live) }).frames.at(-1)?.kind, 'done')
})

t.test('a client that left before the answer began cancels by on_disconnect', async (t) => {
  const backend = await startBackend(t)
  const came = Promise.withResolvers<void>()
  const waiting: Plugin = {
    name: 'waiting',
    schema: z.strictObject({}),
    setup: () => ({
      begin: (x) => ({
        async admit() {
          if (!x.route.metered) return
          came.resolve()
          while (!x.left.aborted) await new Promise(setImmediate)
        },
      }),
    }),
  }
  const gateway = await startGateway(t, { yaml: chatYaml(backend.url), ownPlugins: [waiting] })
  const account = await gateway.account(1_000_000)
  const chat = chatOf(t, gateway, account)
  const session = await chat.session()
  const client = new AbortController()
  const path = `/api/chat/sessions/${session}/messages`
  const body = { content: 'Hi', on_disconnect: 'cancel' }
  const sending = gateway.call(path, account.key, body, client.signal)
  await came.promise
  client.abort()
  await t.rejects(sending)
  const answer = await eventually(async () => {
    const found = (await chat.messages(session)).find(({ role }) => role === 'assistant')
    return found && found.status !== 'in_progress' ? found : undefined
  })
  t.equal(answer.status, 'cancelled')
})
