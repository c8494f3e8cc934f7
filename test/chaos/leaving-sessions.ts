// Leaving saves no money in a session either: a message that is cancelled at its last word costs what it used.

import t from 'tap'
import type { Test } from 'tap'
import { honest, textTokens } from '../fixtures/honest-backend.ts'
import type { Generation } from '../fixtures/honest-backend.ts'
import { imageBytes } from '../fixtures/images.ts'
import { balanceOf, transactionsOf } from '../fixtures/money.ts'
import { messageIdOf, startChat } from '../fixtures/session-chat.ts'
import { until } from '../fixtures/until.ts'

const words = (n: number) => 'word '.repeat(n)
const short: Generation = { chunks: [{ delta: { content: 'yes' } }], tokens: 1 }

interface Sent {
  readonly body: object
  readonly generation?: Generation
  readonly model?: string
  readonly prompt?: (body: Record<string, unknown>) => number | Promise<number>
}

/** A message that is cancelled at the last word. */
async function cancelled(t: Test, { body, generation = short, model = '', prompt }: Sent) {
  const of = ({ messages, tools, response_format: format }: Record<string, unknown>) =>
    textTokens([messages, tools, format])
  const backend = honest(prompt ?? of, generation)
  const path = await startChat(t, { script: backend.script, model, tokens: 10_000_000 })
  const live = await path.send(path.sessionId, { content: 'Hi', stream: true, ...body })
  await live.until('yes')
  const ending = path.at(`/${path.sessionId}/messages/${messageIdOf(live)}/cancel`, {
    method: 'POST',
  })
  // A cancel is answered even if it can't end the message yet.
  if (generation.hidden) await (await ending).end()
  else await path.backend.requests[0]?.closed
  backend.goOn()
  await (await ending).end()
  await live.end()
  await until(async () => (await balanceOf(path.gateway, path.account)).reserved === 0)
  const charges = (await transactionsOf(path.gateway, path.account)).filter(
    (one) => one.type === 'charge',
  )
  const charged = -charges.reduce((sum, { amount }) => sum + amount, 0)
  const truth = backend.truth.prompt + backend.truth.completion
  t.comment(`${charged} charged, ${truth} used`)
  t.ok(charged >= truth, `${charged} ≥ ${truth}`)
  const message = await path.message(path.sessionId, messageIdOf(live))
  return { live, message }
}

t.test('sessions: a document in tools', async (t) => {
  const tool = { type: 'function', function: { name: 'f', description: words(24_000) } }
  await cancelled(t, { body: { tools: [tool] } })
})

t.test('sessions: a document in response_format', async (t) => {
  const schema = { type: 'object', description: words(24_000) }
  const response_format = { type: 'json_schema', json_schema: { name: 'x', schema } }
  await cancelled(t, { body: { response_format } })
})

t.test(
  'sessions: hidden reasoning is read to its usage, and the message ends as cancelled',
  async (t) => {
    const { live, message } = await cancelled(t, {
      body: {},
      generation: {
        chunks: [{ delta: { content: 'yes' } }, { delta: { content: 'no' } }],
        tokens: 2,
        hidden: 12_000,
      },
      model: 'hidden_reasoning: true, max_output_tokens: 20000',
    })
    t.equal(message.status, 'cancelled')
    t.match(message.usage, { completion_tokens: 12_002, estimated: false })
    t.match(live.bytes.toString(), /message_cancelled/)
  },
)

t.test('sessions: large images', async (t) => {
  const url = `data:image/png;base64,${imageBytes('png', 5400, 5350).toString('base64')}`
  const images = Array.from({ length: 8 }, () => ({ type: 'image_url', image_url: { url } }))
  await cancelled(t, {
    body: { content: [{ type: 'text', text: 'Hi' }, ...images] },
    prompt: () => (8 * 5400 * 5350) / 784,
    model: 'accepts: [text, image]',
  })
})
