import t from 'tap'
import type { Test } from 'tap'
import { sse } from '../../fixtures/backend-scripts.ts'
import { Gate } from '../../fixtures/gate.ts'
import { ask, messageIdOf, refusal, startChat } from '../../fixtures/session-chat.ts'
import type { Chat, Live } from '../../fixtures/session-chat.ts'
import { backendBytes, names, pieces, values } from '../../fixtures/session-events.ts'
import { parseStream } from '../../fixtures/sse-grammar.ts'
import type { Frame } from '../../fixtures/sse-grammar.ts'
import { eventually } from '../../fixtures/until.ts'

const said: readonly (readonly [string | undefined, string])[] = [
  ...values.map((value, i) => [names.get(i), value] as const),
  [undefined, '[DONE]'],
]

const told = (frames: readonly Frame[]) => frames.map(({ event, data }) => [event, data])

/** The bytes of a stream from this seq on, as a reader that joins there must get them. */
function tailOf(whole: Buffer, message: string, seq: number): Buffer {
  const at = whole.indexOf(`id: ${message}:${seq}\n`)
  return Buffer.concat([Buffer.from('retry: 1000\n'), whole.subarray(at)])
}

async function streamed(chat: Chat): Promise<{ live: Live; message: string; path: string }> {
  const live = await chat.send(chat.sessionId)
  const message = messageIdOf(live)
  return { live, message, path: `/${chat.sessionId}/messages/${message}/stream` }
}

const lineEnds = { LF: '\n', CRLF: '\r\n', CR: '\r' }
for (const [name, lineEnd] of Object.entries(lineEnds)) {
  t.test(`values are sent byte for byte if the backend ends lines with ${name}`, async (t) => {
    const chat = await startChat(t, { script: sse(pieces(backendBytes(lineEnd), 7919)) })
    const { live, message } = await streamed(chat)
    const whole = await live.end()
    t.same(told(parseStream(whole, { first: 0, message }).frames), said)
  })
}

t.test('a backend that sends its bytes one by one is relayed in the same way', async (t) => {
  const script = sse(pieces(backendBytes('\r\n').subarray(0, 3000), 1))
  const chat = await startChat(t, { script })
  const { live, message } = await streamed(chat)
  const { frames } = parseStream(await live.end(), { first: 0, message })
  t.same(told(frames.slice(0, -1)), said.slice(0, frames.length - 1))
  t.ok(frames.length > 8)
})

t.test('a stream is replayed from each place, by header or query, on both gateways', async (t) => {
  const chat = await startChat(t, { script: sse([backendBytes()]) })
  const { live, message, path } = await streamed(chat)
  const whole = await live.end()
  const other = await chat.another()
  for (const on of [chat.gateway, other]) {
    t.ok((await (await chat.at(path, {}, on)).end()).equals(whole), 'from the beginning')
    for (let seq = 0; seq < said.length - 1; seq++) {
      const expected = tailOf(whole, message, seq + 1)
      const headers = { 'Last-Event-ID': `${message}:${seq}` }
      const byHeader = await chat.at(path, { headers }, on)
      t.ok((await byHeader.end()).equals(expected), `behind ${seq}, by header`)
      const byQuery = await chat.at(`${path}?starting_after=${seq}`, {}, on)
      t.ok((await byQuery.end()).equals(expected), `behind ${seq}, by query`)
      parseStream(expected, { first: seq + 1, message })
      const both = await chat.at(`${path}?starting_after=0`, { headers }, on)
      t.ok((await both.end()).equals(expected), 'the header wins')
    }
    t.equal((await chat.at(`${path}?starting_after=${said.length - 1}`, {}, on)).status, 204)
  }
  t.equal(chat.backend.requests.length, 1)
})

t.test('readers who join anywhere get the same bytes live, on both gateways', async (t) => {
  const gate = new Gate()
  const parts = pieces(backendBytes('\r\n'), 4000)
  const chat = await startChat(t, { script: sse(parts, { gate }) })
  const other = await chat.another()
  gate.next(1)
  const { live, message, path } = await streamed(chat)
  await live.until(`id: ${message}:1\n`)
  const active = `/${chat.sessionId}/stream`
  const readers: { seq: number; live: Live }[] = []
  for (const on of [chat.gateway, other]) {
    readers.push({ seq: 0, live: await chat.at(path, {}, on) })
    readers.push({ seq: 0, live: await chat.at(active, {}, on) })
    readers.push({ seq: 1, live: await chat.at(`${path}?starting_after=0`, {}, on) })
    const headers = { 'Last-Event-ID': `${message}:1` }
    readers.push({ seq: 2, live: await chat.at(active, { headers }, on) })
  }
  gate.open()
  const whole = await live.end()
  t.same(told(parseStream(whole, { first: 0, message }).frames), said)
  for (const { seq, live } of readers) {
    t.equal(live.status, 200)
    t.ok((await live.end()).equals(tailOf(whole, message, seq)), `from ${seq}`)
  }
  t.equal((await chat.at(active)).status, 204)
})

t.test('pauses are filled with comments that break no frame, wherever it is read', async (t) => {
  const gate = new Gate()
  const chunk = (text: string) =>
    `data: {"choices":[{"index":0,"delta":{"content":"${text}"}}]}\n\n`
  const finish =
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
  const chat = await startChat(t, {
    script: sse([chunk('a'), chunk('b'), finish], { gate }),
    yaml: 'limits: { heartbeat: 20ms, session_first_event: 10ms }',
  })
  const other = await chat.another()
  const { live, message, path } = await streamed(chat)
  await live.until(':\n:\n')
  t.equal(live.bytes.includes('retry'), false, 'retry waits for its block')
  gate.next()
  await live.until(`id: ${message}:0\n`)
  const elsewhere = await chat.at(path, {}, other)
  await elsewhere.until(':\n:\n')
  gate.next()
  await elsewhere.until(`id: ${message}:1\n`)
  await live.until('\n\n:\n:\n')
  gate.open()
  for (const reader of [live, elsewhere]) {
    const { frames, heartbeats } = parseStream(await reader.end(), { first: 0, message })
    t.equal(frames.length, 4)
    t.ok(heartbeats >= 2)
  }
})

t.test('a cursor that names nothing is refused; unknown or foreign streams are 404', async (t) => {
  const chat = await startChat(t, { script: sse([backendBytes()]) })
  const { live, message, path } = await streamed(chat)
  await live.end()
  const second = await streamed(chat)
  await second.live.end()
  const last = said.length - 1
  const wrongHeaders = [
    '17',
    'x',
    'msg_',
    `${message}`,
    `${message}:`,
    `${message}:-1`,
    `${message}:1.5`,
    `${message}:1e2`,
    `${message}: 1`,
    `${message}:1:2`,
    `${message.toUpperCase()}:1`,
    `${message}:0x1`,
    `${message}:99999999999999999999`,
    `${second.message}:1`,
    `${message}:${last + 1}`,
    `${message}:${last + 100}`,
    ':5',
    `sess_${message.slice(4)}:1`,
  ]
  for (const id of wrongHeaders) {
    const answer = await chat.at(path, { headers: { 'Last-Event-ID': id } })
    t.same(await refusal(answer), [400, 'invalid_last_event_id'], id)
  }
  const wrongQueries = [
    '',
    'x',
    '-1',
    '1.5',
    '0x1',
    '%201',
    '1%0a',
    `${last + 1}`,
    '99999999999999999999',
    `${message}:1`,
  ]
  for (const query of wrongQueries) {
    const answer = await chat.at(`${path}?starting_after=${query}`)
    t.same(await refusal(answer), [400, 'invalid_last_event_id'], query)
  }
  const twice = await chat.at(`${path}?starting_after=1&starting_after=1`)
  t.same(await refusal(twice), [400, 'invalid_last_event_id'])

  const otherSession = await chat.session()
  const unknown = `msg_${'0'.repeat(32)}`
  for (const wrong of [
    `/${chat.sessionId}/messages/${unknown}/stream`,
    `/${chat.sessionId}/messages/nothing/stream`,
    `/${otherSession}/messages/${message}/stream`,
    `/sess_${'0'.repeat(32)}/messages/${message}/stream`,
  ]) {
    const [status, code] = await refusal(await chat.at(wrong))
    t.equal(status, 404, `${wrong}: ${code}`)
  }
  const stranger = await chat.gateway.account(1000)
  t.equal((await chat.at(path, { key: stranger.key })).status, 404)
  t.equal((await chat.at(`/${chat.sessionId}/stream`, { key: stranger.key })).status, 404)
})

t.test('who names a running message by a session that has it not cancels nothing', async (t) => {
  const gate = new Gate()
  const chat = await startChat(t, { script: sse(pieces(backendBytes(), 4000), { gate }) })
  const stranger = await chat.gateway.account(1000)
  const strangers = await (await chat.at('', { key: stranger.key, body: {} })).json()
  const otherSession = await chat.session()
  gate.next(1)
  const { live, message } = await streamed(chat)
  for (const [session, key] of [
    [chat.sessionId, stranger.key],
    [String(strangers['id']), stranger.key],
    [otherSession, chat.key],
  ] as const) {
    const path = `/${session}/messages/${message}/cancel`
    const [status] = await refusal(await chat.at(path, { method: 'POST', key }))
    t.equal(status, 404)
  }
  gate.open()
  t.ok((await live.end()).toString().endsWith('data: [DONE]\n\n'))
  t.match(await chat.message(chat.sessionId, message), { status: 'completed' })
})

t.test('the headers of each stream are those of docs/api.md', async (t) => {
  const chat = await startChat(t, { script: sse([backendBytes()]) })
  const { live, message, path } = await streamed(chat)
  await live.end()
  const messagePath = `/api/chat/sessions/${chat.sessionId}/messages/${message}`
  const expected = {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
    'x-message-id': message,
    'content-location': messagePath,
    location: `${messagePath}/stream`,
    'x-request-id': /^req_[0-9a-f]{32}$/,
  }
  const user = (await chat.messages(chat.sessionId))[0]?.id
  t.match(live.headers, { ...expected, 'x-user-message-id': user })
  const resumed = await chat.at(path)
  await resumed.end()
  t.match(resumed.headers, expected)
  const underV1 = await ask(t, `${chat.gateway.url}/v1${messagePath}/stream`, { key: chat.key })
  t.ok((await underV1.end()).equals(await live.end()), 'the other mount is the same')
})

t.test('a stream that is no longer kept is 410, with the message to read instead', async (t) => {
  const chat = await startChat(t, {
    script: sse([backendBytes()]),
    yaml: 'plugins: { sessions: { replay_keep: 100ms } }',
  })
  const headers = { 'Idempotency-Key': 'once' }
  const live = await chat.send(chat.sessionId, 'Hi', { headers })
  const message = messageIdOf(live)
  await live.end()
  await expired(t, chat, message)
  const again = await chat.send(chat.sessionId, 'Hi', { headers })
  t.equal(again.headers.location, `/api/chat/sessions/${chat.sessionId}/messages/${message}`)
  t.same(await refusal(again), [410, 'stream_expired'], 'a repeated send too')
  t.equal(chat.backend.requests.length, 1)
})

async function expired(t: Test, chat: Chat, message: string): Promise<void> {
  const messagePath = `/${chat.sessionId}/messages/${message}`
  const answer = await eventually(async () => {
    const one = await chat.at(`${messagePath}/stream`)
    if (one.status !== 200) return one
    // The stream may end between its headers and its first frame.
    one.leave()
    return undefined
  })
  t.equal(answer.headers.location, `/api/chat/sessions${messagePath}`)
  t.same(await refusal(answer), [410, 'stream_expired'])
  t.match(await chat.message(chat.sessionId, message), { status: 'completed' })
}

t.test('beyond the limit of a message the oldest frames go; live readers see all', async (t) => {
  const gate = new Gate()
  const text = (i: number) =>
    `data: {"choices":[{"index":0,"delta":{"content":"${i}${'x'.repeat(8000)}"}}]}\n\n`
  const parts = Array.from({ length: 60 }, (_, i) => text(i))
  const finish = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
  const chat = await startChat(t, {
    script: sse([...parts, finish], { gate }),
    model: 'max_output_tokens: 120000',
    yaml: 'plugins: { sessions: { replay_bytes: 64KiB } }',
  })
  const other = await chat.another()
  gate.next(2)
  const { live, message, path } = await streamed(chat)
  const elsewhere = await chat.at(path, {}, other)
  await elsewhere.until(`id: ${message}:1\n`)
  for (let i = 5; i < parts.length; i += 6) {
    gate.next(i === 5 ? 4 : 6)
    await live.until(`id: ${message}:${i}\n`)
    await elsewhere.until(`id: ${message}:${i}\n`)
  }
  gate.open()
  const whole = await live.end()
  t.equal(parseStream(whole, { first: 0, message }).frames.length, 62)
  t.ok((await elsewhere.end()).equals(whole))
  for (const on of [chat.gateway, other]) {
    const answer = await chat.at(path, {}, on)
    t.equal(answer.headers.location, `/api/chat/sessions/${chat.sessionId}/messages/${message}`)
    t.same(await refusal(answer), [410, 'stream_expired'])
    const late = await chat.at(`${path}?starting_after=58`, {}, on)
    t.ok((await late.end()).equals(tailOf(whole, message, 59)), 'the newest are kept')
  }
  const { content } = await chat.message(chat.sessionId, message)
  t.equal(String(content).length, 60 * 8000 + 110, 'the message is whole')
})
