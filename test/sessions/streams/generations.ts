// Every message that a process generates ends in one place, finished or withdrawn, whatever its backend, readers and
// Redis do.

import t from 'tap'
import { durable } from '../../fixtures/aof.ts'
import { behind, failing, sse } from '../../fixtures/backend-scripts.ts'
import { chat, endless } from '../../fixtures/backend-model.ts'
import { startBackend } from '../../fixtures/backend.ts'
import { Gate } from '../../fixtures/gate.ts'
import { startRedis } from '../../fixtures/redis-server.ts'
import { connectLink } from '../../fixtures/ledger.ts'
import { messageIdOf, refusal, startChat } from '../../fixtures/session-chat.ts'
import type { Chat } from '../../fixtures/session-chat.ts'
import { parseStream } from '../../fixtures/sse-grammar.ts'
import { eventually, until } from '../../fixtures/until.ts'

const activeOf = (it: Chat) =>
  eventually(async () => {
    const { active_message_id: active } = await it.read(`/${it.sessionId}`)
    return typeof active === 'string' ? active : undefined
  })

const delta = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`
const role = delta({ role: 'assistant', content: '' })

t.test('cancelled between its role and its words, a stream has no hole', async (t) => {
  const gate = new Gate()
  gate.next(2)
  const it = await startChat(t, { script: sse([role, role, delta({ content: 'x' })], { gate }) })
  const sent = it.send(it.sessionId)
  const message = await activeOf(it)
  await it.backend.request(0)
  const cancel = await it.at(`/${it.sessionId}/messages/${message}/cancel`, { method: 'POST' })
  t.match(await cancel.json(), { status: 'cancelled', content: null })
  const answer = await sent
  t.equal(answer.status, 200)
  const bytes = await answer.end()
  const { frames } = parseStream(bytes, { first: 0, message })
  t.match(frames, [{ kind: 'error', data: /message_cancelled/ }])
  const other = await it.another()
  const copy = await it.at(`/${it.sessionId}/messages/${message}/stream`, {}, other)
  t.equal((await copy.end()).toString(), bytes.toString())
})

t.test('what has finished is not cancelled any more, while its usage is awaited', async (t) => {
  const gate = new Gate()
  gate.next(2)
  const end = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
  const finish = `data: ${JSON.stringify(end)}\n\n`
  const script = sse([delta({ content: 'x' }), finish, 'data: [DONE]\n\n'], { gate })
  const it = await startChat(t, { script, model: 'on_leave: finish' })
  const live = await it.send(it.sessionId)
  const message = messageIdOf(live)
  await live.until('"stop"')
  await (await it.at(`/${it.sessionId}/messages/${message}/cancel`, { method: 'POST' })).end()
  gate.open()
  t.match((await live.end()).toString(), /\[DONE\]\n\n$/)
  t.match(await it.message(it.sessionId, message), { status: 'completed', content: 'x' })
})

t.test('what a backend refuses leaves nothing, also for who sent it twice at once', async (t) => {
  const gate = new Gate()
  const refused = failing(400, { body: { error: { message: 'no', code: 'too_odd' } } })
  const backend = await startBackend(t, behind(gate, refused))
  const it = await startChat(t, { backend })
  const asked = { headers: { 'idempotency-key': 'k' } }
  const first = it.send(it.sessionId, 'Hi', asked)
  await activeOf(it)
  const { client } = await connectLink(t, it.gateway.redis.socket)
  const reads = async () =>
    Number((await client.info('commandstats')).match(/hget:calls=(\d+)/)?.[1] ?? 0)
  const before = await reads()
  const second = it.send(it.sessionId, 'Hi', asked)
  // It has found the message that the first send made, and waits for its end.
  await until(async () => (await reads()) > before)
  gate.open()
  const answers = await Promise.all([first, second])
  t.same(await Promise.all(answers.map(refusal)), [
    [400, 'too_odd'],
    [400, 'too_odd'],
  ])
  t.equal(backend.requests.length, 1)
  t.same(await it.messages(it.sessionId), [])
  t.match(await it.read(`/${it.sessionId}`), { active_message_id: null, message_count: 0 })
  const third = await it.send(it.sessionId, 'Hi', asked)
  t.same(await refusal(third), [400, 'too_odd'], 'its key is free')
  t.equal(backend.requests.length, 2)
})

t.test('who is refused is told so, however long Redis takes to forget the message', async (t) => {
  const gate = new Gate()
  const redis = await startRedis(t)
  const script = behind(gate, failing(400, { body: { error: { message: 'no', code: 'too_odd' } } }))
  const yaml = 'limits: { session_first_event: 1s }'
  const it = await startChat(t, { redis, script, yaml })
  const sent = it.send(it.sessionId)
  await it.backend.request(0)
  process.kill(redis.pid, 'SIGSTOP')
  t.teardown(() => process.kill(redis.pid, 'SIGCONT'))
  gate.open()
  t.same(await refusal(await sent), [400, 'too_odd'])
  process.kill(redis.pid, 'SIGCONT')
  await until(async () => (await it.messages(it.sessionId)).length === 0)
})

t.test('with Redis away an answer goes on to its end, which Redis is told later', async (t) => {
  const redis = await startRedis(t, { args: durable })
  const gate = new Gate()
  const it = await startChat(t, { redis, script: chat({ chunks: 5, gate }) })
  const answer = await (async () => {
    const sent = it.send(it.sessionId)
    gate.next(2)
    return sent
  })()
  const message = messageIdOf(answer)
  await answer.until(':1\n')
  await redis.stop()
  gate.open()
  const bytes = await answer.end()
  t.match(parseStream(bytes, { first: 0, message }).frames.at(-1), { kind: 'done' })
  await redis.restart()
  const read = await eventually(async () => {
    const found = await it.message(it.sessionId, message)
    return found.status === 'completed' ? found : undefined
  })
  t.type(read.content, 'string')
  const other = await it.another()
  const copy = await it.at(`/${it.sessionId}/messages/${message}/stream`, {}, other)
  t.equal((await copy.end()).toString(), bytes.toString(), 'byte for byte, in order')
  t.match(await it.read(`/${it.sessionId}`), { active_message_id: null })
})

t.test('a message that is taken for lost stops its backend, and its readers', async (t) => {
  const gate = new Gate()
  const it = await startChat(t, { script: chat({ chunks: 50, gate }) })
  gate.next(2)
  const answer = await it.send(it.sessionId)
  await answer.until(':0\n')
  const { client } = await connectLink(t, it.gateway.redis.socket)
  const [name = ''] = await client.keys('*:stream:*')
  await client.hset(name, 'hold', "another's")
  await answer.cut()
  await (
    await it.backend.request(0)
  ).closed
  t.match(await it.message(it.sessionId, messageIdOf(answer)), { status: 'in_progress' })
})

t.test('a gateway that closes tells Redis of every end first', async (t) => {
  const it = await startChat(t, { script: endless({ gapMs: 5 }), yaml: 'drain: 0s' })
  const message = messageIdOf(await it.send(it.sessionId))
  await it.gateway.close()
  const other = await it.another()
  const found = await it.message(it.sessionId, message, other)
  t.equal(found.status, 'incomplete')
  await until(async () => (await it.read(`/${it.sessionId}`, other))['active_message_id'] === null)
})
