// The built-in model behaves as an OpenAI-compatible server does, and counts honestly.

import t from 'tap'
import { startDemo } from '../../src/demo/server.ts'
import { Meter } from '../../src/backend/usage.ts'
import { SseReader } from '../../src/backend/sse-reader.ts'

const demo = await startDemo()
t.teardown(() => demo.close())

const messages = [{ role: 'user', content: 'Hi "you" </script> \u0007' }]
const post = (path: string, body: unknown): Promise<Response> =>
  fetch(`${demo.url}${path}`, { method: 'POST', body: JSON.stringify(body) })

interface Completion {
  readonly choices: readonly {
    readonly text?: string
    readonly message?: { readonly content: string }
    readonly finish_reason: string
  }[]
  readonly usage: { readonly completion_tokens: number; readonly prompt_tokens: number }
}

async function streamed(body: object): Promise<{ meter: Meter; text: string }> {
  const answer = await post('/chat/completions', { messages, stream: true, ...body })
  const meter = new Meter({ completeWhen: 'finish_reason', choices: 1, count: async () => 0 })
  let text = ''
  new SseReader(1 << 20).feed(Buffer.from(await answer.arrayBuffer()), ({ data }) => {
    meter.event(data)
    if (data === '[DONE]') return
    const { choices } = JSON.parse(data) as { choices: { delta: { content?: string } }[] }
    text += choices[0]?.delta.content ?? ''
  })
  return { meter, text }
}

t.test('a stream says what the whole answer says, and ends in a finish and [DONE]', async (t) => {
  const whole = (await (await post('/chat/completions', { messages })).json()) as Completion
  const { meter, text } = await streamed({ stream_options: { include_usage: true } })
  t.equal(text, whole.choices[0]?.message?.content)
  t.match(text, 'Hi "you" </script>')
  t.ok(meter.complete)
  t.ok(meter.sawDone)
  t.equal(meter.finishReason, 'stop')
  t.equal(meter.reported?.completion, whole.usage.completion_tokens)
  t.equal(meter.reported?.completion, meter.contentEvents)
})

t.test('a stream has usage if the request asks for it', async (t) => {
  t.equal((await streamed({ max_tokens: 2 })).meter.reported, undefined)
})

t.test('the maximum is obeyed, under both names, and the finish says so', async (t) => {
  for (const field of ['max_tokens', 'max_completion_tokens']) {
    const { meter } = await streamed({ [field]: 3, stream_options: { include_usage: true } })
    t.equal(meter.contentEvents, 3)
    t.equal(meter.reported?.completion, 3)
    t.equal(meter.finishReason, 'length')
  }
})

t.test('several choices are all counted', async (t) => {
  const answer = await post('/chat/completions', { messages, n: 3, max_tokens: 4 })
  const { choices, usage } = (await answer.json()) as Completion
  t.equal(choices.length, 3)
  t.equal(usage.completion_tokens, 12)
})

t.test('plain completions, embeddings and the list of models', async (t) => {
  const plain = (await (await post('/completions', { prompt: 'Hi' })).json()) as Completion
  t.match(plain.choices[0]?.text, 'You said: "Hi"')
  type Embeddings = { data: { embedding: number[] }[]; usage: { prompt_tokens: number } }
  const embed = async (input: unknown): Promise<Embeddings> =>
    (await (await post('/embeddings', { input })).json()) as Embeddings
  const two = await embed(['one', 'two words'])
  t.equal(two.data.length, 2)
  t.equal(two.usage.prompt_tokens, 3)
  t.strictSame((await embed('one')).data[0], two.data[0])
  t.notSame(two.data[0]?.embedding, two.data[1]?.embedding)
  t.equal((await embed([1, 2, 3])).data.length, 1)
  t.match(await (await fetch(`${demo.url}/models`)).json(), {
    object: 'list',
    data: [{ id: 'demo' }],
  })
})

t.test('a request that it cannot answer is refused as OpenAI does', async (t) => {
  const refused = [
    [await post('/chat/completions', {}), 400],
    [await post('/chat/completions', []), 400],
    [await fetch(`${demo.url}/chat/completions`, { method: 'POST', body: '{' }), 400],
    [await post('/nothing', {}), 404],
    [await fetch(`${demo.url}/chat/completions`), 404],
  ] as const
  for (const [answer, status] of refused) {
    t.equal(answer.status, status)
    t.match(await answer.json(), { error: { message: String, type: 'invalid_request_error' } })
  }
})
