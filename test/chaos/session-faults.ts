// What can go wrong around a message, one fault in each test: readers that are cut off, replies of Redis that are lost,
// owners that wake up too late. Each time the message is charged once, for what was generated, and the session can be
// used again.

import t from 'tap'
import { keys } from '../../src/redis/keys.ts'
import { countText } from '../../src/tokens/count-pieces.ts'
import { durable } from '../fixtures/aof.ts'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { chat as model, wordsBefore } from '../fixtures/backend-model.ts'
import { failing, sse } from '../fixtures/backend-scripts.ts'
import { startDelayProxy } from '../fixtures/delay-proxy.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway, startGateway } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { balanceOf, openHold, refOf } from '../fixtures/money.ts'
import { chatOf, chatYaml, messageIdOf, refusal, startChat } from '../fixtures/session-chat.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { eventually, until } from '../fixtures/until.ts'

const outputOnly = 'price: { input: 0, output: 1 }, max_output_tokens: 100000'
/** What a checkpoint says of three words. */
const three = await countText(wordsBefore(3))

/** `count` words, each in an event of 20 kB. */
function padded(count: number, gate: Gate): Script {
  const padding = 'x'.repeat(20_000)
  return async ({ res, served }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    const say = (choice: object) =>
      res.write(`data: ${JSON.stringify({ choices: [{ index: 0, ...choice }], padding })}\n\n`)
    for (; served.completion < count; served.completion++) {
      await gate.wait()
      say({ delta: { content: 'a ' } })
    }
    say({ delta: {}, finish_reason: 'stop' })
    res.end('data: [DONE]\n\n')
  }
}

t.test('what is generated after its first reader was cut off is charged, too', async (t) => {
  const gate = new Gate()
  const chat = await startChat(t, {
    yaml: 'plugins: { sessions: { replay_bytes: 64KiB } }',
    model: outputOnly,
    script: padded(700, gate),
  })
  const link = await connectLink(t, chat.gateway.redis.socket)
  // The first count of tokens takes long.
  chat.backend.once(sse(['data: {"choices":[{"delta":{"content":"a"}}]}\n\n'], { end: 'cut' }))
  await (await chat.send(chat.sessionId)).end()
  gate.next()
  const reader = await chat.send(chat.sessionId)
  const message = messageIdOf(reader)
  reader.pause()
  // More than a socket buffers and more than memory keeps: the frames that the reader needs next are gone.
  gate.next(599)
  const stored = () => link.client.hget(keys.stream(refOf(chat.account), message), 'next')
  const isStored = async (events: number) => Number(await stored()) === events
  await until(() => isStored(600))
  reader.resume()
  await reader.cut()
  gate.next(50)
  await until(() => isStored(650))
  t.match(await balanceOf(chat.gateway, chat.account), { spent: 1, reserved: 100_000 })
  gate.open()
  const ended = await eventually(async () => {
    const one = await chat.message(chat.sessionId, message)
    return one.status === 'in_progress' ? undefined : one
  })
  t.match(ended, { status: 'completed', cost: 701 })
  t.match(await balanceOf(chat.gateway, chat.account), { spent: 702, reserved: 0 })
})

t.test(
  'a send whose rows were stored, and whose reply was lost, leaves nothing behind',
  async (t) => {
    const backend = await startBackend(t)
    const redis = await startRedis(t)
    const proxy = await startDelayProxy(t, redis.socket)
    const yaml = chatYaml(backend.url)
    const gateway = await startGateway(t, { redis, redisUrl: `unix://${proxy.socket}`, yaml })
    const account = await gateway.account(1000)
    const { client } = await connectLink(t, redis.socket)
    const chat = chatOf(t, gateway, account)
    const session = await chat.session()
    const headers = { 'Idempotency-Key': 'once' }
    proxy.stallAt(':stream:')
    const first = chat.send(session, 'Hi', { headers })
    await until(async () => (await client.keys('*:stream:*')).length > 0)
    proxy.cut()
    proxy.resume()
    t.same(await refusal(await first), [503, 'ledger_unavailable'])
    await until(async () => (await client.keys('*:stream:*')).length === 0)
    const isFree = { message_count: 0, active_message_id: null }
    t.match(await eventually(() => chat.read(`/${session}`).then(orAgain)), isFree)
    const second = await (await chat.send(session, 'Hi', { headers })).end()
    t.match(second.toString(), /data: \[DONE\]\n\n$/, 'the same key serves the next try')
    t.equal(backend.requests.length, 1)
    t.match(await balanceOf(gateway, account), { reserved: 0, spent: 9 })
  },
)

t.test('a send that fails while Redis is away leaves nothing behind when it is back', async (t) => {
  const gate = new Gate()
  const redis = await startRedis(t, { args: durable })
  const script: Script = (call) => gate.wait().then(() => failing(500)(call))
  const chat = await startChat(t, { redis, script })
  const headers = { 'Idempotency-Key': 'once' }
  const first = chat.send(chat.sessionId, 'Hi', { headers })
  await chat.backend.request(0)
  await redis.kill()
  gate.open()
  t.same(await refusal(await first), [502, 'upstream_error'])
  await redis.restart()
  const { client } = await connectLink(t, redis.socket)
  await until(async () => (await client.keys('*:stream:*')).length === 0)
  await until(async () => (await chat.read(`/${chat.sessionId}`))['message_count'] === 0)
  chat.backend.on(model())
  const second = await (await chat.send(chat.sessionId, 'Hi', { headers })).end()
  t.match(second.toString(), /data: \[DONE\]\n\n$/)
  t.match(await balanceOf(chat.gateway, chat.account), { reserved: 0, spent: 9 })
})

const orAgain = (body: Record<string, unknown>) => ('error' in body ? undefined : body)

t.test(
  'an owner that was given up, and wakes, says what its message cost in the end',
  async (t) => {
    const gate = new Gate()
    const script = model({ chunks: 20, gate })
    const yaml = 'plugins: { metering: { lease: 2s } }'
    const chat = await startChat(t, { script, yaml, model: outputOnly })
    const { redis } = chat.gateway
    const link = await connectLink(t, redis.socket)
    const victim = await spawnGateway(t, { redis, yaml: chat.yaml })
    gate.next(4)
    const whole = chat.send(chat.sessionId, { content: 'Hi', stream: false }, {}, victim)
    await until(async () => (await openHold(link, chat.account)).charged === three)
    victim.child.kill('SIGSTOP')
    const last = async () => (await chat.messages(chat.sessionId)).at(-1)
    await until(async () => (await last())?.status === 'incomplete')
    t.match(await last(), { cost: three })
    gate.open()
    victim.child.kill('SIGCONT')
    await until(async () => (await balanceOf(chat.gateway, chat.account)).reserved === 0)
    const answer = await (await whole).json()
    const { balance } = await balanceOf(chat.gateway, chat.account)
    t.match(answer, { status: 'incomplete', cost: 1_000_000 - balance })
    t.strictSame(await last(), answer)
  },
)

t.test('a message costs what was used even if less was left: the rest is owed', async (t) => {
  const gate = new Gate()
  const script = model({ chunks: 10, gate })
  const yaml = 'plugins: { metering: { lease: 2s } }'
  const chat = await startChat(t, { script, yaml, model: outputOnly, tokens: 10 })
  const { redis } = chat.gateway
  const link = await connectLink(t, redis.socket)
  const victim = await spawnGateway(t, { redis, yaml: chat.yaml })
  gate.next(4)
  const whole = chat.send(
    chat.sessionId,
    { content: 'Hi', stream: false, max_tokens: 10 },
    {},
    victim,
  )
  await until(async () => (await openHold(link, chat.account)).charged === three)
  victim.child.kill('SIGSTOP')
  const isLeft = async () => (await balanceOf(chat.gateway, chat.account)).available === 10 - three
  await until(isLeft)
  await chat.gateway.admin('POST', `accounts/${chat.account.id}/adjust`, {
    amount: three - 10,
    note: 'spent',
  })
  gate.open()
  victim.child.kill('SIGCONT')
  // Ten words, or fewer: the gateway stops the answer when it learns first how little is left.
  const answer = await (await whole).json()
  const cost = Number(answer['cost'])
  t.ok(cost > three, 'more than it was charged when its owner was away')
  t.match(answer, { usage: { completion_tokens: cost } })
  t.match((await chat.messages(chat.sessionId)).at(-1), { cost })
  t.match(await balanceOf(chat.gateway, chat.account), { balance: 0, owed: cost - three })
})

t.test('a session does not expire while it generates an answer', async (t) => {
  const gate = new Gate()
  const yaml = 'plugins: { sessions: { retention: 1h } }'
  const chat = await startChat(t, { yaml, script: model({ chunks: 2, gate }) })
  const { client } = await connectLink(t, chat.gateway.redis.socket)
  const ref = refOf(chat.account)
  gate.next(2)
  const reader = await chat.send(chat.sessionId)
  const other = await chat.session()
  t.ok((await client.ttl(keys.session(ref, other))) <= 3600, 'it would be gone')
  for (const keyOf of [keys.session, keys.messageIds, keys.messages]) {
    const key = keyOf(ref, chat.sessionId)
    t.ok(await client.expire(key, (await client.ttl(key)) - 3600), 'as if an hour had passed')
    t.ok(await client.exists(key))
  }
  gate.open()
  t.match(String(await reader.end()), /data: \[DONE\]\n\n$/)
  t.match(await chat.message(chat.sessionId, messageIdOf(reader)), { status: 'completed' })
  const leftS = await client.ttl(keys.session(ref, chat.sessionId))
  t.ok(leftS > 3500 && leftS <= 3600, 'from its end on')
})
