// Conversations with a real llama.cpp server whose context is small, through two gateway processes: ten turns, of which
// the server gets those that fit; tool calls and their results; whole answers. Everything is charged as the server
// counts.

import t from 'tap'
import type { Test } from 'tap'
import type { Transaction } from '../../src/ledger/transaction.ts'
import { granted, price, saidIn, startReal } from '../fixtures/real-sessions.ts'
import type { Message, Read } from '../fixtures/real-sessions.ts'

// The first run on a machine makes a Python environment.
t.setTimeout(300_000)

const contextTokens = 1024
const answerTokens = 40
const instructions = 'We count what the model says, and we charge what we count.'
const real = await startReal(t, contextTokens)
const { one, two } = real
const gateways = [one, two] as const

/** The charges that the journal must have in the end, by message. */
const costs = new Map<string, number>()

/** The message as a backend gets it. */
const bare = ({ role, content, tool_calls, tool_call_id }: Message) => ({
  role,
  content,
  ...(tool_calls && { tool_calls }),
  ...(tool_call_id && { tool_call_id }),
})

/** The stored message is what was streamed, and costs the usage that the server reports. */
async function keptAsStreamed(test: Test, session: string, read: Read): Promise<Message> {
  const said = saidIn(read)
  const message = await real.message(two, session, read.message)
  test.equal(read.headers.get('x-message-id'), message.id)
  test.equal(message.status, 'completed')
  test.equal(message.content ?? '', said.text, 'the text is the deltas together')
  test.equal(message.finish_reason, said.finish)
  const { prompt_tokens = 0, completion_tokens = 0 } = said.usage ?? {}
  test.match(message.usage, { prompt_tokens, completion_tokens, estimated: false })
  test.equal(message.cost, prompt_tokens * price.input + completion_tokens * price.output)
  costs.set(message.id, message.cost ?? 0)
  return message
}

t.test(
  'ten turns outgrow the context: the oldest turns go, whole, and no turn fails',
  async (t) => {
    const session = await real.create(one, { model: 'tiny', instructions })
    const droppedTurns: number[] = []
    for (let turn = 0; turn < 10; turn++) {
      const gateway = gateways[turn % 2] ?? one
      const before = await real.list(gateway, session)
      // Each turn is longer, so that the cut is at another place each time.
      const content = `${turn}: ${'The model answers word by word, and the client reads. '.repeat(turn + 1)}`
      const body = { content, max_tokens: answerTokens, ignore_eos: true }
      const read = await real.read(gateway, real.path(session), { body })
      const { prompt } = await real.slot()
      const { usage } = await keptAsStreamed(t, session, read)
      t.equal(usage?.completion_tokens, answerTokens)
      t.ok((usage?.prompt_tokens ?? 0) + answerTokens <= contextTokens)
      const dropped = await droppedOf(before, { content, prompt })
      droppedTurns.push(dropped)
      t.comment(
        `turn ${turn + 1}: ${before.length} messages stored, the oldest ${dropped} turns dropped, ` +
          `prompt ${usage?.prompt_tokens} of ${contextTokens} tokens`,
      )
    }
    t.equal((await real.list(one, session)).length, 20, 'nothing that was dropped is lost')
    t.same(
      droppedTurns,
      droppedTurns.toSorted((a, b) => a - b),
    )
    t.equal(droppedTurns[2], 0, 'what fits is kept')
    t.ok((droppedTurns[9] ?? 0) > 0, 'the history is longer than the context')
  },
)

/** How many of the oldest turns the server did not get. Throws if it got anything but the instructions and whole turns. */
async function droppedOf(
  before: readonly Message[],
  { content, prompt }: { readonly content: string; readonly prompt: string },
): Promise<number> {
  for (let dropped = 0; dropped * 2 <= before.length; dropped++) {
    const messages = [
      { role: 'system', content: instructions },
      ...before.slice(dropped * 2).map(bare),
      { role: 'user', content },
    ]
    if ((await real.promptOf(messages)) === prompt) return dropped
  }
  throw new Error(`The server was given something else: ${prompt}`)
}

const tools = [
  {
    type: 'function',
    function: {
      name: 'count_tokens',
      description: 'Counts.',
      parameters: {
        type: 'object',
        properties: { of: { type: 'string', enum: ['balance', 'answer'] } },
        required: ['of'],
      },
    },
  },
]
/** The model's own tokens that end the answer, open a call and close it, each as soon as the server's grammar allows it. */
const callOnce = { tool_choice: 'required', logit_bias: { 2: 200, 3: 100, 31: 50 } }

t.test('if texts have more tokens than estimated, a session learns it', async (t) => {
  const session = await real.create(one, {})
  const prompts: (number | undefined)[] = []
  for (let turn = 0; turn < 8; turn++) {
    // The model's vocabulary has no words for it: each byte is a token.
    const body = { content: 'ÿ'.repeat(150), stream: false, max_tokens: 20 }
    const { id, usage, cost } = await real.json<Message>(one, real.path(session), body)
    costs.set(id, cost ?? 0)
    prompts.push(usage?.prompt_tokens)
  }
  t.comment(`prompts of ${prompts.join(', ')} tokens`)
  t.ok(prompts.every((tokens = 0) => tokens > 300 && tokens < contextTokens))
})

t.test('a tool is called, its result is sent, and the answer knows of both', async (t) => {
  const session = await real.create(one, { model: 'tiny', instructions })
  const content = 'We count what we count.'
  const asking = await real.read(one, real.path(session), {
    body: { content, tools, ...callOnce, max_tokens: 400 },
  })
  const asked = await keptAsStreamed(t, session, asking)
  t.equal(asked.finish_reason, 'tool_calls')
  t.equal(asked.tool_calls?.length, 1)
  const [call] = asked.tool_calls ?? []
  t.match(call, { id: /./, type: 'function', function: { name: 'count_tokens' } })
  t.equal(call?.function.arguments, saidIn(asking).arguments)
  t.match(JSON.parse(call?.function.arguments ?? ''), { of: /^(balance|answer)$/ })
  const result = { role: 'tool', tool_call_id: call?.id, content: 'a balance' }
  const answering = await real.read(two, real.path(session), {
    body: { messages: [result], tools, max_tokens: 40 },
  })
  const { prompt } = await real.slot()
  const answer = await keptAsStreamed(t, session, answering)
  t.ok(answer.content)
  const stored = await real.list(two, session)
  t.same(
    stored.map(({ role }) => role),
    ['user', 'assistant', 'tool', 'assistant'],
  )
  const messages = [{ role: 'system', content: instructions }, ...stored.slice(0, 3).map(bare)]
  t.equal(prompt, await real.promptOf(messages, { tools }))
  t.comment(`called ${call?.function.name}(${JSON.stringify(call?.function.arguments)})`)
})

t.test('an answer that is not streamed is the message', async (t) => {
  const session = await real.create(two, { instructions })
  const body = { content: 'The client may leave.', stream: false, max_tokens: 20 }
  const answer = await real.json<Message>(two, real.path(session), body)
  t.match(answer, { object: 'chat.message', status: 'completed', usage: { estimated: false } })
  t.ok(answer.content)
  const { prompt_tokens = 0, completion_tokens = 0 } = answer.usage ?? {}
  t.equal(answer.cost, prompt_tokens * price.input + completion_tokens * price.output)
  t.same(await real.message(one, session, answer.id), answer)
  costs.set(answer.id, answer.cost ?? 0)
})

t.test(
  'a question that alone is too long is refused by the server, and leaves nothing',
  async (t) => {
    const session = await real.create(one, {})
    const answer = await real.raw(one, real.path(session), { content: 'ÿ'.repeat(contextTokens) })
    t.equal(answer.status, 400)
    t.match(await answer.json(), { error: { type: 'exceed_context_size_error' } })
    t.same(await real.list(one, session), [])
  },
)

t.test('what the messages cost is what the journal has, and what left the balance', async (t) => {
  interface Balance {
    readonly balance: number
    readonly reserved: number
  }
  const { balance, reserved } = await real.json<Balance>(one, '/api/billing/balance')
  const path = '/api/billing/transactions?limit=100'
  const { data } = await real.json<{ data: readonly Transaction[] }>(two, path)
  const charges = data.filter(({ type }) => type === 'charge')
  t.same(new Map(charges.map(({ message_id, amount }) => [message_id, -amount])), costs)
  const spent = [...costs.values()].reduce((sum, cost) => sum + cost, 0)
  t.equal(granted - balance, spent)
  t.equal(reserved, 0)
  t.comment(`${costs.size} messages cost ${spent}; ${granted - balance} left the balance`)
})
