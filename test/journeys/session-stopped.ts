// Answers in sessions that are stopped: by a cancel before anything came, by leaving, by deleting the session, by
// stopping the gateway, by suspending the account. Each ends honestly, is paid for once, and stops its backend.

import t from 'tap'
import type { Test } from 'tap'
import { sse, silent } from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { balanceOf, differencesOf, transactionsOf } from '../fixtures/money.ts'
import { messageIdOf, refusal, startChat } from '../fixtures/session-chat.ts'
import type { Chat } from '../fixtures/session-chat.ts'
import { parseStream } from '../fixtures/sse-grammar.ts'
import { eventually, until } from '../fixtures/until.ts'

const tokens = 1_000_000
const chunk = (text: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text } }] })}\n\n`
const finish = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\n`
const talking = sse([chunk('a'), chunk('b')], { end: false })

const activeOf = (chat: Chat) =>
  eventually(async () => {
    const { active_message_id: active } = await chat.read(`/${chat.sessionId}`)
    return typeof active === 'string' ? active : undefined
  })

function terminalOf(bytes: Buffer, message: string): unknown {
  const last = parseStream(bytes, { first: 0, message }).frames.at(-1)
  return (JSON.parse(last?.data ?? '') as { error?: { code: unknown } }).error?.code
}

/** There is one charge, for this message, of at least the prompt. */
async function isPaidOnce(t: Test, chat: Chat, message: string): Promise<number> {
  const charges = await eventually(async () => {
    const [, ...all] = await transactionsOf(chat.gateway, chat.account)
    return all.length > 0 ? all : undefined
  })
  t.equal(charges.length, 1)
  const cost = -(charges[0]?.amount ?? 0)
  t.match(charges[0], { type: 'charge', message_id: message, usage: { prompt_tokens: Number } })
  t.ok(cost > 0)
  t.match(await balanceOf(chat.gateway, chat.account), { balance: tokens - cost, reserved: 0 })
  t.strictSame(await differencesOf(chat.gateway), [])
  return cost
}

t.test(
  'cancelled before the answer began, a send is answered with the cancelled stream',
  async (t) => {
    const chat = await startChat(t, { script: silent })
    const answering = chat.send(chat.sessionId)
    const asked = await chat.backend.request(0)
    const message = await activeOf(chat)
    const path = `/${chat.sessionId}/messages/${message}/cancel`
    const other = await chat.another()
    t.match(await (await chat.at(path, { method: 'POST' }, other)).json(), { status: 'cancelled' })
    const live = await answering
    t.equal(live.status, 200)
    t.equal(messageIdOf(live), message)
    t.equal(terminalOf(await live.end(), message), 'message_cancelled')
    await asked.closed
    await isPaidOnce(t, chat, message)
  },
)

t.test('a send that is not streamed is answered with the cancelled message', async (t) => {
  const chat = await startChat(t, { script: talking })
  const answering = chat.send(chat.sessionId, { content: 'Hi', stream: false })
  const message = await activeOf(chat)
  const path = `/${chat.sessionId}/messages/${message}`
  await until(async () => (await chat.read(path))['content'] === 'ab')
  await chat.at(`${path}/cancel`, { method: 'POST' })
  const live = await answering
  t.equal(live.status, 200)
  t.match(await live.json(), { id: message, status: 'cancelled', content: 'ab', error: null })
  await isPaidOnce(t, chat, message)
})

t.test('a reader that leaves does not stop the answer, others read it to its end', async (t) => {
  const chat = await startChat(t, { script: talking })
  const live = await chat.send(chat.sessionId)
  const message = messageIdOf(live)
  await live.until('"a"')
  live.leave()
  const other = await chat.another()
  for (const on of [chat.gateway, other]) {
    const reader = await chat.at(`/${chat.sessionId}/messages/${message}/stream`, {}, on)
    await reader.until('"b"')
    reader.leave()
  }
  t.equal(await activeOf(chat), message)
  t.match(await balanceOf(chat.gateway, chat.account), { balance: tokens })
  await chat.at(`/${chat.sessionId}/messages/${message}/cancel`, { method: 'POST' })
  await isPaidOnce(t, chat, message)
})

t.test('with on_disconnect: cancel, leaving cancels, and what was generated is paid', async (t) => {
  const chat = await startChat(t, { script: talking })
  const body = { content: 'Hi', on_disconnect: 'cancel' }
  const live = await chat.send(chat.sessionId, body)
  const message = messageIdOf(live)
  await live.until('"b"')
  const reader = await chat.at(`/${chat.sessionId}/messages/${message}/stream`)
  live.leave()
  await (
    await chat.backend.request(0)
  ).closed
  t.equal(terminalOf(await reader.end(), message), 'message_cancelled')
  t.match(await chat.message(chat.sessionId, message), { status: 'cancelled', content: 'ab' })
  await isPaidOnce(t, chat, message)
})

t.test('with on_disconnect: cancel, another reader that leaves cancels nothing', async (t) => {
  const chat = await startChat(t, { script: talking })
  const live = await chat.send(chat.sessionId, { content: 'Hi', on_disconnect: 'cancel' })
  const message = messageIdOf(live)
  await live.until('"b"')
  const reader = await chat.at(`/${chat.sessionId}/messages/${message}/stream`)
  await reader.until('"b"')
  reader.leave()
  const again = await chat.at(`/${chat.sessionId}/messages/${message}/stream`)
  await again.until('"b"')
  t.match(await chat.message(chat.sessionId, message), { status: 'in_progress' })
})

t.test('with on_disconnect: cancel, leaving also cancels before the answer began', async (t) => {
  const chat = await startChat(t, { script: silent })
  const controller = new AbortController()
  const url = `${chat.gateway.url}/api/chat/sessions/${chat.sessionId}/messages`
  const sending = fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${chat.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ content: 'Hi', on_disconnect: 'cancel' }),
    signal: controller.signal,
  })
  const asked = await chat.backend.request(0)
  const message = await activeOf(chat)
  controller.abort()
  await t.rejects(sending)
  await asked.closed
  await until(async () => (await chat.message(chat.sessionId, message)).status === 'cancelled')
  await isPaidOnce(t, chat, message)
})

for (const where of ['here', 'elsewhere']) {
  t.test(`a session that is deleted ${where} cancels its answer and takes all along`, async (t) => {
    const chat = await startChat(t, { script: talking })
    const live = await chat.send(chat.sessionId)
    const message = messageIdOf(live)
    await live.until('"b"')
    const other = await chat.another()
    const elsewhere = await chat.at(`/${chat.sessionId}/messages/${message}/stream`, {}, other)
    await elsewhere.until('"b"')
    const on = where === 'here' ? chat.gateway : other
    t.equal((await chat.at(`/${chat.sessionId}`, { method: 'DELETE' }, on)).status, 204)
    await (
      await chat.backend.request(0)
    ).closed
    t.equal(terminalOf(await live.end(), message), 'message_cancelled')
    t.equal(terminalOf(await elsewhere.end(), message), 'message_cancelled')
    for (const path of ['', '/messages', `/messages/${message}`, `/messages/${message}/stream`]) {
      t.equal((await chat.at(`/${chat.sessionId}${path}`)).status, 404, path)
    }
    await isPaidOnce(t, chat, message)
  })
}

t.test('a gateway that is stopped ends its answers, kept as far as they came', async (t) => {
  const chat = await startChat(t, { script: talking, yaml: 'drain: 50ms' })
  const live = await chat.send(chat.sessionId)
  const message = messageIdOf(live)
  await live.until('"b"')
  const other = await chat.another()
  const elsewhere = await chat.at(`/${chat.sessionId}/messages/${message}/stream`, {}, other)
  await chat.gateway.close()
  t.equal(terminalOf(await live.end(), message), 'server_draining')
  t.equal(terminalOf(await elsewhere.end(), message), 'server_draining')
  const read = await chat.message(chat.sessionId, message, other)
  t.match(read, {
    status: 'incomplete',
    content: 'ab',
    finish_reason: null,
    error: { type: 'overloaded_error', code: 'server_draining' },
  })
  t.equal(await isPaidOnce(t, { ...chat, gateway: other }, message), read.cost)
})

t.test('a suspended account pays for what came, and learns why nothing more comes', async (t) => {
  const chat = await startChat(t, { script: talking, yaml: 'plugins: { metering: { lease: 1s } }' })
  const live = await chat.send(chat.sessionId)
  const message = messageIdOf(live)
  await live.until('"b"')
  await chat.gateway.admin('PATCH', `accounts/${chat.account.id}`, { status: 'suspended' })
  t.equal(terminalOf(await live.end(), message), 'account_suspended')
  await chat.gateway.admin('PATCH', `accounts/${chat.account.id}`, { status: 'active' })
  const read = await chat.message(chat.sessionId, message)
  t.match(read, { status: 'failed', content: 'ab', error: { code: 'account_suspended' } })
  t.equal(await isPaidOnce(t, chat, message), read.cost)
})

t.test('a gateway that is stopped before anything came refuses, and leaves nothing', async (t) => {
  const chat = await startChat(t, { script: silent, yaml: 'drain: 50ms' })
  const other = await chat.another()
  const headers = { 'Idempotency-Key': 'k' }
  const answering = chat.send(chat.sessionId, 'Hi', { headers })
  await chat.backend.request(0)
  await chat.gateway.close()
  const refused = await answering
  t.ok(refused.headers['retry-after'])
  t.same(await refusal(refused), [503, 'server_draining'])
  t.match(await chat.read(`/${chat.sessionId}`, other), {
    message_count: 0,
    active_message_id: null,
  })
  t.match(await balanceOf(other, chat.account), { spent: 0, reserved: 0 })
  chat.backend.on(sse([chunk('a'), finish]))
  const again = await chat.send(chat.sessionId, 'Hi', { headers }, other)
  t.equal(again.status, 200)
  t.equal(again.headers['idempotent-replayed'], undefined, 'its key is free')
})

t.test('a client that leaves while it waits for a whole answer finds it later', async (t) => {
  const gate = new Gate()
  const chat = await startChat(t, { script: sse([chunk('a'), finish], { gate }) })
  const controller = new AbortController()
  const path = `/api/chat/sessions/${chat.sessionId}/messages`
  const body = { content: 'Hi', stream: false }
  const sending = chat.gateway.call(path, chat.key, body, controller.signal)
  const message = await activeOf(chat)
  controller.abort()
  await t.rejects(sending)
  gate.open()
  await until(async () => (await chat.message(chat.sessionId, message)).status === 'completed')
  t.match(await chat.message(chat.sessionId, message), { content: 'a', finish_reason: 'stop' })
  await isPaidOnce(t, chat, message)
})
