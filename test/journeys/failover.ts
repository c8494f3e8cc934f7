// Targets that fail, as users see them: only that an answer takes longer. On /v1 and in sessions.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import type { Backend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { failing, reset, silent, sse } from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { balanceOf, transactionsOf } from '../fixtures/money.ts'
import { chatOf, messageIdOf, noLimits, refusal } from '../fixtures/session-chat.ts'
import { parseStream } from '../fixtures/sse-grammar.ts'
import { until } from '../fixtures/until.ts'

const role = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
const oom = 'data: {"error":{"message":"out of memory"}}\n\n'

async function world(t: Test, { count = 2, yaml = '', model = '' } = {}) {
  const backends: Backend[] = []
  for (let i = 0; i < count; i++) backends.push(await startBackend(t, chat({ chunks: 4 })))
  const targets = backends.map(({ url }, i) => `{ url: '${url}', priority: ${i + 1} }`).join(', ')
  const models = `models: { m: { targets: [${targets}], ${model} } }`
  const gateway = await startGateway(t, { yaml: `${models}\n${noLimits}\n${yaml}` })
  const account = await gateway.account(1_000_000)
  const asked = () => backends.map(({ requests }) => requests.length)
  return { backends, gateway, account, asked, ...chatOf(t, gateway, account) }
}

t.test(
  "a session's message whose first target fails is one answer, and is paid once",
  async (t) => {
    const { backends, gateway, account, session, send, message, at } = await world(t, { count: 3 })
    backends[0]?.on(sse([role, oom]))
    backends[1]?.on(sse([role], { end: 'cut' }))
    const id = await session({ model: 'm' })
    const answer = await send(id)
    t.equal(answer.status, 200)
    const { frames } = parseStream(await answer.end(), { message: messageIdOf(answer) })
    const [first, last] = [frames[0], frames.at(-1)]
    t.equal(first?.seq, 0, 'the frames of failed targets take no numbers')
    t.equal(last?.data, '[DONE]')
    t.notMatch(frames.map(({ data }) => data).join(), /error/)
    const row = await message(id, messageIdOf(answer))
    t.match(row, { status: 'completed', content: 'w0 w1 w2 w3 ', finish_reason: 'stop' })
    const again = await at(`/${id}/messages/${messageIdOf(answer)}/stream`)
    t.strictSame(parseStream(await again.end()).frames, frames, 'what is read again is the same')
    const charges = (await transactionsOf(gateway, account)).filter(({ type }) => type === 'charge')
    t.equal(charges.length, 1)
    const { balance, reserved } = await balanceOf(gateway, account)
    t.strictSame([1_000_000 - balance, reserved], [row.cost, 0])
  },
)

t.test('who leaves while a target fails finds the answer of another one', async (t) => {
  const { backends, session, send, messages } = await world(t)
  const gate = new Gate()
  backends[0]?.on(async (call) => {
    await gate.wait()
    await reset(call)
  })
  const id = await session({ model: 'm' })
  const leaving = send(id)
  leaving.catch(() => undefined)
  await backends[0]?.request(0)
  gate.open()
  const answer = await leaving
  answer.leave()
  await until(async () => (await messages(id)).at(-1)?.status === 'completed')
})

t.test('a cancelled message asks no other target', async (t) => {
  const yaml = 'limits: { session_first_event: 50ms }'
  const { backends, asked, session, send, at, message } = await world(t, { yaml })
  backends[0]?.on(silent)
  const id = await session({ model: 'm' })
  const answer = await send(id)
  const { status } = await at(`/${id}/messages/${messageIdOf(answer)}/cancel`, { method: 'POST' })
  t.equal(status, 200)
  t.equal((await message(id, messageIdOf(answer))).status, 'cancelled')
  t.strictSame(asked(), [1, 0])
})

t.test('where all targets fail, a session is as it was before', async (t) => {
  const { backends, session, send, messages, asked, gateway, account } = await world(t)
  backends[0]?.on(failing(500))
  backends[1]?.on(failing(503, { headers: { 'retry-after': '3' } }))
  const id = await session({ model: 'm' })
  const answer = await send(id)
  t.strictSame(await refusal(answer), [503, 'upstream_unavailable'])
  t.strictSame([await messages(id), asked()], [[], [1, 1]])
  t.match(await balanceOf(gateway, account), { balance: 1_000_000, reserved: 0 })
})

t.test('three targets, one hanging and one at 500: users only wait a little longer', async (t) => {
  const model = 'timeouts: { first_token: 200ms }, retry_on_timeout: true'
  const { backends, gateway, account } = await world(t, { count: 3, model })
  backends[0]?.on(silent)
  backends[1]?.on(failing(500))
  const ask = (stream: boolean) => {
    const messages = [{ role: 'user', content: 'Hi' }]
    return gateway.call('/v1/chat/completions', account.key, { model: 'm', messages, stream })
  }
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(true)))
  for (const answer of answers) {
    t.equal(answer.status, 200)
    t.match(await answer.text(), /w0 .*\[DONE\]/s)
  }
  // The hanging target costs its first_token, the other one nothing that is seen.
  const lines = gateway.log.filter((line) => line.includes('"attempts"'))
  t.equal(lines.length, 20)
})
