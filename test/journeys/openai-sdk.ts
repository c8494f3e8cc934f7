// Requests of OpenAI's own package, to a gateway with the default configuration: all common parameters pass.

import OpenAI from 'openai'
import t from 'tap'
import { chatPath } from '../fixtures/chat-path.ts'

const png = 'data:image/png;base64,iVBORw0KGgo='

const sampling = {
  temperature: 0.5,
  top_p: 0.9,
  frequency_penalty: 0.1,
  presence_penalty: 0.1,
  seed: 7,
  stop: ['\n\n', 'END'],
  logit_bias: { '50256': -100 },
  user: 'user-1',
  n: 2,
}

const tool = {
  type: 'function' as const,
  function: { name: 'look_up', parameters: { type: 'object', properties: { url: {} } } },
}

const asked = {
  ...sampling,
  model: 'm',
  messages: [
    { role: 'developer' as const, content: 'Be short.' },
    {
      role: 'user' as const,
      content: [
        { type: 'text' as const, text: 'What is at https://example.com?' },
        { type: 'image_url' as const, image_url: { url: png, detail: 'low' as const } },
        {
          type: 'input_audio' as const,
          input_audio: { data: 'A'.repeat(80), format: 'wav' as const },
        },
        {
          type: 'file' as const,
          file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
        },
      ],
    },
    {
      role: 'assistant' as const,
      content: null,
      tool_calls: [
        { id: 'call_1', type: 'function' as const, function: { name: 'look_up', arguments: '{}' } },
      ],
    },
    { role: 'tool' as const, tool_call_id: 'call_1', content: 'http://example.com is an example' },
  ],
  max_completion_tokens: 4,
  logprobs: true,
  top_logprobs: 5,
  tools: [tool],
  tool_choice: 'auto' as const,
  parallel_tool_calls: false,
  reasoning_effort: 'low' as const,
  verbosity: 'low' as const,
  modalities: ['text' as const],
  safety_identifier: 'user-1',
  prompt_cache_key: 'a',
  store: false,
  response_format: {
    type: 'json_schema' as const,
    json_schema: { name: 'answer', strict: true, schema: { type: 'object', properties: {} } },
  },
}

const samplers = {
  top_k: 20,
  min_p: 0.05,
  repetition_penalty: 1.1,
  repeat_penalty: 1.1,
  chat_template_kwargs: { enable_thinking: false },
  skip_special_tokens: false,
  guided_json: { type: 'object' },
  stop_token_ids: [1, 2],
}

t.test('all common parameters of the official package and of open servers', async (t) => {
  const { backend, gate, key } = await chatPath(t, {
    model:
      'endpoints: [chat, completions, embeddings, moderations], accepts: [text, image, audio, file]',
  })
  const client = new OpenAI({ baseURL: `${gate.url}/v1`, apiKey: key, maxRetries: 0 })
  const last = () => JSON.parse(String(backend.requests.at(-1)?.body)) as Record<string, unknown>

  const { choices } = await client.chat.completions.create(asked)
  t.equal(choices.length, 2)
  const { max_completion_tokens: max_tokens, ...rest } = asked
  t.strictSame(last(), { ...rest, max_tokens })

  const extended = { ...asked, ...samplers, stream: true as const }
  const options = { include_usage: true, include_obfuscation: false }
  const stream = await client.chat.completions.create({ ...extended, stream_options: options })
  let usage
  for await (const chunk of stream) usage = chunk.usage ?? usage
  t.match(usage, { completion_tokens: Number })
  t.match(last(), { ...samplers, stream_options: options })

  const completion = {
    ...sampling,
    prompt: ['a', 'b'],
    suffix: 'c',
    logprobs: 5,
    max_tokens: 3,
    best_of: 2,
  }
  await client.completions.create({ model: 'm', ...completion })
  t.match(last(), completion)

  await client.embeddings.create({ model: 'm', input: ['a', 'b'], dimensions: 2, user: 'u' })
  t.match(last(), { input: ['a', 'b'], dimensions: 2, encoding_format: 'base64' })

  const input = [
    { type: 'text' as const, text: 'a' },
    { type: 'image_url' as const, image_url: { url: png } },
  ]
  await client.moderations.create({ model: 'm', input })
  t.strictSame(last(), { model: 'm', input })

  const refused = client.chat.completions.create({ ...asked, service_tier: 'priority' })
  await t.rejects(refused, { status: 400, code: 'unknown_parameter', param: 'service_tier' })
})
