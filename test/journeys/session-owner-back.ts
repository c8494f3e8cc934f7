// The gateway that generates an answer loses Redis for longer than a lease: another one ends the message, while the
// client gets all of it. When the gateway is back, everybody finds what the client got.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { sse } from '../fixtures/backend-scripts.ts'
import { startDelayProxy } from '../fixtures/delay-proxy.ts'
import { Gate } from '../fixtures/gate.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { balanceOf, differencesOf, transactionsOf } from '../fixtures/money.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { chatOf, chatYaml, messageIdOf } from '../fixtures/session-chat.ts'
import type { Live } from '../fixtures/session-chat.ts'
import { parseStream } from '../fixtures/sse-grammar.ts'
import { until } from '../fixtures/until.ts'

const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const chunk = (content: string) => event({ choices: [{ index: 0, delta: { content } }] })
const finish = event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
const usage = { prompt_tokens: 20, completion_tokens: 30, total_tokens: 50 }
const rest = [chunk('three '), chunk('four'), finish, event({ choices: [], usage })]
const answer = [chunk('one '), chunk('two '), ...rest, 'data: [DONE]\n\n']
const granted = 1_000_000
const short = [chunk('short'), finish, event({ choices: [], usage }), 'data: [DONE]\n\n']

/** One gateway has begun an answer, and lost Redis; the other one has ended its message. */
async function parted(t: Test) {
  const gate = new Gate()
  const backend = await startBackend(t, sse(short))
  backend.once(sse(answer, { gate }))
  const redis = await startRedis(t)
  const proxy = await startDelayProxy(t, redis.socket)
  const yaml = chatYaml(backend.url, { yaml: 'plugins: { metering: { lease: 1s } }' })
  const owner = await startGateway(t, { yaml, redis, redisUrl: `unix://${proxy.socket}` })
  const other = await startGateway(t, { yaml, redis })
  const account = await other.account(granted)
  const chat = chatOf(t, other, account)
  const session = await chat.session()
  const sending = chat.send(session, 'Hi', {}, owner)
  gate.next(2)
  const live = await sending
  const message = messageIdOf(live)
  const stream = (from?: number) =>
    chat.at(`/${session}/messages/${message}/stream`, {
      headers: from === undefined ? {} : { 'Last-Event-ID': `${message}:${from - 1}` },
    })
  const reader = await stream()
  await reader.until('two ')
  proxy.part()
  await until(async () => (await chat.message(session, message)).status === 'incomplete')
  const ended = await reader.end()
  t.match(ended.toString(), /upstream_incomplete/)
  const paid = async () => {
    const [, ...entries] = await transactionsOf(other, account)
    return -entries
      .filter(({ message_id: of }) => of === message)
      .reduce((sum, { amount }) => sum + amount, 0)
  }
  const isSettled = () => until(async () => (await paid()) === usage.total_tokens)
  return { gate, proxy, other, account, chat, session, message, live, stream, paid, isSettled }
}

const frames = (bytes: Buffer, message: string, first = 0) =>
  parseStream(bytes, { first, message }).frames.map(({ seq, data }) => [seq, data])

/** The client of the owner gets all that was generated, without Redis. */
async function wholeOf(live: Live, gate: Gate): Promise<Buffer> {
  gate.open()
  const whole = await live.end()
  t.match(whole.toString(), /four[^]*data: \[DONE\]\n\n$/)
  return whole
}

t.test('when the owner is back, its whole answer takes the place of the other end', async (t) => {
  const it = await parted(t)
  const { chat, session, message, stream } = it
  const whole = await wholeOf(it.live, it.gate)
  t.match(await chat.message(session, message), { status: 'incomplete', content: 'one two ' })
  it.proxy.resume()
  await until(async () => (await chat.message(session, message)).status === 'completed')
  await it.isSettled()
  t.match(await chat.message(session, message), {
    content: 'one two three four',
    finish_reason: 'stop',
    error: null,
    cost: usage.total_tokens,
    usage: { completion_tokens: 30 },
  })
  const sent = frames(whole, message)
  t.same(frames(await (await stream()).end(), message), sent, 'from the start')
  t.same(frames(await (await stream(1)).end(), message, 1), sent.slice(1), 'from a place')
  t.equal((await stream(sent.length)).status, 204, 'who had the end')
  t.equal((await stream(3)).status, 204, 'who had the other end')
  const balance = granted - usage.total_tokens
  t.match(await balanceOf(it.other, it.account), { balance, reserved: 0 })
  t.same(await differencesOf(it.other), [])
  t.equal((await chat.send(session, 'And now?')).status, 200, 'the session goes on')
})

t.test('who has sent a further message keeps the history that was sent with it', async (t) => {
  const it = await parted(t)
  const { chat, session, message } = it
  await wholeOf(it.live, it.gate)
  const next = await chat.send(session, 'Go on')
  await next.end()
  it.proxy.resume()
  await it.isSettled()
  await until(async () => (await chat.message(session, message)).cost === usage.total_tokens)
  t.match(await chat.message(session, message), { status: 'incomplete', content: 'one two ' })
  t.match((await (await it.stream()).end()).toString(), /upstream_incomplete/)
  const balance = granted - 2 * usage.total_tokens
  t.match(await balanceOf(it.other, it.account), { balance, reserved: 0 })
  t.same(await differencesOf(it.other), [])
})

t.test('an owner that is back before its answer is whole stops, and the end stays', async (t) => {
  const it = await parted(t)
  const { chat, session, message } = it
  it.proxy.resume()
  await it.live.cut()
  t.match(await chat.message(session, message), { status: 'incomplete', content: 'one two ' })
  await until(async () => (await balanceOf(it.other, it.account)).reserved === 0)
  t.same(await differencesOf(it.other), [])
})
