// A send that is repeated with its key is answered like the first one, and costs nothing.

import t from 'tap'
import { heapBytes } from '../../fixtures/heap.ts'
import { until } from '../../fixtures/until.ts'
import type { Script } from '../../fixtures/backend.ts'
import { chat as model } from '../../fixtures/backend-model.ts'
import { sse } from '../../fixtures/backend-scripts.ts'
import { Gate } from '../../fixtures/gate.ts'
import { balanceOf } from '../../fixtures/money.ts'
import { chargedOnce, messageIdOf, refusal, startChat } from '../../fixtures/session-chat.ts'
import { parseStream } from '../../fixtures/sse-grammar.ts'

const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`

t.test('a key with another body is refused, and is free for other sessions', async (t) => {
  const chat = await startChat(t)
  const headers = { 'Idempotency-Key': 'k' }
  await (await chat.send(chat.sessionId, 'Hi', { headers })).end()
  const other = await chat.send(chat.sessionId, 'Ho', { headers })
  t.same(await refusal(other), [422, 'idempotency_key_reused'])
  t.equal(chat.backend.requests.length, 1)
  const session = await chat.session()
  const elsewhere = await chat.send(session, 'Hi', { headers })
  t.equal(elsewhere.status, 200)
  t.equal(elsewhere.headers['idempotent-replayed'], undefined)
})

t.test('a repeated send continues where it was, also while the answer is generated', async (t) => {
  const gate = new Gate()
  const chat = await startChat(t, { script: model({ gate, chunks: 6 }) })
  const other = await chat.another()
  gate.next(4)
  const headers = { 'Idempotency-Key': 'k' }
  const live = await chat.send(chat.sessionId, 'Hi', { headers })
  const message = messageIdOf(live)
  await live.until(`${message}:2\n`)
  live.leave()
  const cursor = { ...headers, 'Last-Event-ID': `${message}:1` }
  const readers = [
    { first: 0, live: await chat.send(chat.sessionId, 'Hi', { headers }) },
    { first: 0, live: await chat.send(chat.sessionId, 'Hi', { headers }, other) },
    { first: 2, live: await chat.send(chat.sessionId, 'Hi', { headers: cursor }) },
    { first: 2, live: await chat.send(chat.sessionId, 'Hi', { headers: cursor }, other) },
  ]
  gate.open()
  for (const { first, live } of readers) {
    const { frames } = parseStream(await live.end(), { first, message })
    t.equal(frames.length, 10 - first)
    t.equal(frames.at(-1)?.kind, 'done')
  }
  await chargedOnce(t, chat)
})

t.test('a repeated send is found before session, limits and balance are checked', async (t) => {
  const gate = new Gate()
  const chat = await startChat(t, {
    script: model({ gate, chunks: 20 }),
    tokens: 20,
    model: 'price: { input: 0, output: 1 }',
  })
  const headers = { 'Idempotency-Key': 'k' }
  gate.next(4)
  const live = await chat.send(chat.sessionId, 'Hi', { headers })
  const again = await chat.send(chat.sessionId, 'Hi', { headers })
  t.equal(again.status, 200, 'not session_busy')
  gate.open()
  const whole = await live.end()
  t.ok((await again.end()).equals(whole))
  t.match(await balanceOf(chat.gateway, chat.account), { balance: 0 })
  t.same(await refusal(await chat.send(chat.sessionId)), [402, 'insufficient_balance'])
  const last = await chat.send(chat.sessionId, 'Hi', { headers })
  t.ok((await last.end()).equals(whole), 'not insufficient_balance')
  await chargedOnce(t, chat)
})

t.test('repeated sends that are read keep neither their body nor the history', async (t) => {
  const gate = new Gate()
  const script: Script = async ({ json, res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(data({ choices: [{ index: 0, delta: { content: 'a' } }] }))
    const messages = json['messages'] as readonly unknown[]
    if (messages.length > 4) await gate.wait()
    res.end(data({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }))
  }
  const chat = await startChat(t, {
    script,
    model: 'context_window: 1000000, price: { input: 0, output: 0 }',
    // Half of it is one account's: of six bodies with what is read from them.
    yaml: 'limits: { bodies: 4MiB, json_v1: 1MiB, json_message: 1MiB, json_api: 1MiB }',
  })
  const text = 'some words '.repeat(15_000)
  for (let i = 0; i < 2; i++) await (await chat.send(chat.sessionId, text)).end()
  const headers = { 'Idempotency-Key': 'k' }
  const send = async () => {
    const live = await chat.send(chat.sessionId, text, { headers })
    t.equal(live.status, 200)
    await live.until('"a"')
    return live
  }
  const all = [await send(), await send()]
  const before = heapBytes()
  const many = 20
  for (let i = 0; i < many; i++) all.push(await send())
  // Some of the garbage is freed only a few turns of the event loop later.
  await until(() => heapBytes() - before < (many * text.length) / 2)
  gate.open()
  for (const live of all) await live.end()
})

t.test('a repeated send whose key is refused holds no place of a reader', async (t) => {
  const chat = await startChat(t, { yaml: 'limits: { readers: 4 }' })
  const { key } = await chat.gateway.keyFor(chat.account.id, { scopes: ['files'] })
  const headers = { 'Idempotency-Key': 'k' }
  const first = await chat.send(chat.sessionId, 'Hi', { headers })
  const whole = await first.end()
  for (let i = 0; i < 5; i++) {
    const refused = await chat.send(chat.sessionId, 'Hi', { headers, key })
    t.same(await refusal(refused), [403, 'insufficient_scope'])
  }
  const again = await chat.send(chat.sessionId, 'Hi', { headers })
  t.equal(again.status, 200)
  t.ok((await again.end()).equals(whole))
})

t.test('a stream that ended in an error is kept as it is: a new try needs a new key', async (t) => {
  const chunk = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
  const chat = await startChat(t, { script: sse([chunk]) })
  const headers = { 'Idempotency-Key': 'k' }
  const whole = await (await chat.send(chat.sessionId, 'Hi', { headers })).end()
  const again = await chat.send(chat.sessionId, 'Hi', { headers })
  t.equal(again.headers['idempotent-replayed'], 'true')
  t.ok((await again.end()).equals(whole))
  t.equal(parseStream(whole).frames.at(-1)?.kind, 'error')
  await chargedOnce(t, chat)
})

t.test('results that are sent again are a repetition, though no call waits any more', async (t) => {
  const tool_calls = [{ id: 'c', type: 'function', function: { name: 'now', arguments: '{}' } }]
  const chat = await startChat(t)
  chat.backend.once(
    sse([
      data({ choices: [{ index: 0, delta: { tool_calls } }] }),
      data({ choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }),
    ]),
  )
  await (await chat.send(chat.sessionId)).end()
  const results = { messages: [{ role: 'tool', tool_call_id: 'c', content: 'noon' }] }
  const headers = { 'Idempotency-Key': 'results' }
  const [first, second] = [
    await (await chat.send(chat.sessionId, results, { headers })).end(),
    await (await chat.send(chat.sessionId, results, { headers })).end(),
  ]
  t.strictSame(second, first)
  t.same(await refusal(await chat.send(chat.sessionId, results)), [400, 'invalid_parameter'])
})

t.test('a repetition is not found once its session is deleted', async (t) => {
  const chat = await startChat(t)
  const headers = { 'Idempotency-Key': 'k' }
  await (await chat.send(chat.sessionId, 'Hi', { headers })).end()
  const deleted = await chat.at(`/${chat.sessionId}`, { method: 'DELETE' })
  t.equal(deleted.status, 204)
  const again = await chat.send(chat.sessionId, 'Hi', { headers })
  t.same(await refusal(again), [404, 'session_not_found'])
  t.equal(chat.backend.requests.length, 1)
})
