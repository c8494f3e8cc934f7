// Many sends at once: with the same Idempotency-Key they are one send, on any number of gateways; without one, a
// session accepts the first and refuses the others.

import t from 'tap'
import { chat as model } from '../fixtures/backend-model.ts'
import { failing } from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { balanceOf, differencesOf } from '../fixtures/money.ts'
import { chargedOnce, messageIdOf, refusal, startChat } from '../fixtures/session-chat.ts'
import { parseStream } from '../fixtures/sse-grammar.ts'

const tries = 50

t.test(
  '50 sends with one key on two gateways: one message, one charge, 50 equal answers',
  async (t) => {
    const chat = await startChat(t, { script: model({ chunks: 40 }) })
    const gateways = [chat.gateway, await chat.another()]
    const headers = { 'Idempotency-Key': 'the-one' }
    const answers = await Promise.all(
      Array.from({ length: tries }, (_, i) =>
        chat.send(chat.sessionId, 'Hi', { headers }, gateways[i % 2]),
      ),
    )
    const [first] = answers
    const message = first ? messageIdOf(first) : ''
    const bodies = await Promise.all(answers.map((answer) => answer.end()))
    for (const [i, answer] of answers.entries()) {
      t.equal(answer.status, 200)
      t.equal(messageIdOf(answer), message)
      t.equal(answer.headers['x-user-message-id'], first?.headers['x-user-message-id'])
      t.ok(bodies[i]?.equals(bodies[0] ?? Buffer.alloc(0)), 'byte for byte')
    }
    t.equal(parseStream(bodies[0] ?? Buffer.alloc(0), { first: 0, message }).frames.length, 44)
    const replays = answers.filter(({ headers }) => headers['idempotent-replayed'] === 'true')
    t.equal(replays.length, tries - 1)
    await chargedOnce(t, chat)
  },
)

t.test(
  '50 sends without a stream, with one key: one message, and the others wait or get it',
  async (t) => {
    const chat = await startChat(t, { script: model({ chunks: 40 }) })
    const gateways = [chat.gateway, await chat.another()]
    const asked = { headers: { 'Idempotency-Key': 'the-one' } }
    const body = { content: 'Hi', stream: false }
    const send = (i: number) => chat.send(chat.sessionId, body, asked, gateways[i % 2])
    const answers = await Promise.all(Array.from({ length: tries }, (_, i) => send(i)))
    const messages = new Set<string>()
    for (const answer of answers) {
      const text = (await answer.end()).toString()
      if (answer.status === 200) messages.add(text)
      else
        t.match(
          [answer.status, text, answer.headers['retry-after']],
          [409, /idempotency_in_progress/, '1'],
        )
    }
    t.equal(messages.size, 1)
    t.ok(messages.has((await (await send(1)).end()).toString()), 'and so does a later one')
    await chargedOnce(t, chat)
  },
)

t.test('50 sends without a key: one is accepted, 49 are told which', async (t) => {
  const gate = new Gate()
  const chat = await startChat(t, { script: model({ gate }) })
  const gateways = [chat.gateway, await chat.another()]
  gate.next(3)
  const answers = await Promise.all(
    Array.from({ length: tries }, (_, i) => chat.send(chat.sessionId, `${i}`, {}, gateways[i % 2])),
  )
  const taken = answers.filter(({ status }) => status === 200)
  t.equal(taken.length, 1)
  for (const answer of answers) {
    if (answer === taken[0]) continue
    t.equal(answer.headers['x-should-retry'], 'false')
    t.same(await refusal(answer), [409, 'session_busy'])
  }
  gate.open()
  await taken[0]?.end()
  await chargedOnce(t, chat)
})

for (const [name, refusing] of Object.entries({
  'refuses in words of its own': failing(400, { body: { error: { code: 'theirs' } } }),
  fails: failing(500),
})) {
  t.test(`50 sends with one key while the backend ${name}: no answer is false`, async (t) => {
    const chat = await startChat(t)
    for (let i = 0; i < 3; i++) chat.backend.once(refusing)
    const gateways = [chat.gateway, await chat.another()]
    const asked = { headers: { 'Idempotency-Key': 'the-one' } }
    const send = (i: number) => chat.send(chat.sessionId, 'Hi', asked, gateways[i % 2])
    const answers = await Promise.all(Array.from({ length: tries }, (_, i) => send(i)))
    const messages = new Set<string>()
    for (const answer of answers) {
      if (answer.status === 200) messages.add((await answer.end()).toString())
      else t.ok(mayBeTold.has(String(await refusal(answer))), String(await refusal(answer)))
    }
    t.ok(messages.size <= 1)
    t.ok(chat.backend.requests.length <= 4)
    t.equal((await chat.messages(chat.sessionId)).length, messages.size * 2)
    t.match(await balanceOf(chat.gateway, chat.account), { reserved: 0 })
    t.strictSame(await differencesOf(chat.gateway), [])
  })
}

/** The refusal itself, or a sign that another try may succeed. */
const mayBeTold = new Set(['400,theirs', '502,upstream_error', '409,idempotency_in_progress'])
