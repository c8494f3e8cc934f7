import t from 'tap'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import { refusal, startChat } from '../fixtures/session-chat.ts'

/** The parameters of the issue: each costs something, or reaches elsewhere. */
const named: Readonly<Record<string, unknown>> = {
  chat_template: '{{ "x" * 100000 }}',
  chat_template_kwargs: { documents: 'x' },
  service_tier: 'priority',
  web_search_options: {},
  models: ['dear'],
  route: 'fallback',
  provider: { order: ['dear'] },
  plugins: [{ id: 'web' }],
  transforms: [],
  kv_transfer_params: { remote_host: '10.0.0.1' },
  prompt_logprobs: 20,
  priority: -1,
  session_params: { id: 'x' },
  id_slot: 0,
  slot_id: 0,
  lora: [{ id: 0 }],
  lora_path: '/a',
  max_new_tokens: 100_000,
  options: { num_predict: -1, num_ctx: 1e6 },
  min_tokens: 5000,
  use_beam_search: true,
  ignore_eos: true,
  api_base: 'http://10.0.0.1',
  base_url: 'http://10.0.0.1',
  api_key: 'x',
  fallbacks: ['dear'],
  num_retries: 9,
  prediction: { type: 'content', content: 'x' },
  background: true,
  cache_prompt: false,
  guided_regex: '(a+)+$',
  grammar: 'root ::= root',
  include_reasoning: false,
  no_such_thing: 1,
  'Temperature ': 1,
}

t.test("what costs or reaches elsewhere needs the operator's permission, on /v1", async (t) => {
  const { backend, ask } = await chatPath(t)
  for (const [name, value] of Object.entries(named)) {
    const answer = await ask({ ...hi, [name]: value })
    const { error } = (await answer.json()) as { error: Record<string, string> }
    t.match([answer.status, error['code']], [400, 'unknown_parameter'], name)
    t.ok(error['param']?.startsWith(name), `${error['param']}`)
    t.match(error['message'], /extra_parameters/)
  }
  t.equal(backend.requests.length, 0)
  for (const off of [null, false]) t.equal((await ask({ ...hi, service_tier: off })).status, 200)
})

t.test('the same in a session', async (t) => {
  const chat = await startChat(t)
  for (const [name, value] of Object.entries(named)) {
    const answer = await chat.send(chat.sessionId, JSON.stringify({ content: 'Hi', [name]: value }))
    t.strictSame(await refusal(answer), [400, 'unknown_parameter'], name)
  }
  t.equal(chat.backend.requests.length, 0)
})

const sent = (body: Buffer | undefined): Record<string, unknown> => JSON.parse(String(body))

t.test("with the operator's permission, by name or for all, they pass", async (t) => {
  const names = Object.keys(named).filter((name) => /^\w+$/.test(name))
  for (const model of [`extra_parameters: [${names.join()}]`, "extra_parameters: ['*']"]) {
    const { backend, ask } = await chatPath(t, { model })
    for (const name of names) {
      t.equal((await ask({ ...hi, [name]: named[name] })).status, 200, name)
      t.strictSame(sent(backend.requests.at(-1)?.body)[name], named[name])
    }
    const chat = await startChat(t, { model })
    for (const name of names) {
      const body = JSON.stringify({ content: 'Hi', stream: false, [name]: named[name] })
      const answer = await chat.send(chat.sessionId, body)
      t.equal(answer.status, 200, name)
      await answer.end()
      t.strictSame(sent(chat.backend.requests.at(-1)?.body)[name], named[name])
    }
  }
})

t.test('limits hold even if everything is allowed', async (t) => {
  const { backend, ask } = await chatPath(t, { model: "extra_parameters: ['*', logprobs]" })
  const bodies = [
    { logprobs: -1 },
    { top_logprobs: 21 },
    { stop: Array.from({ length: 17 }, String) },
    { n: 2000 },
    { n_predict: 1 },
    { Logprobs: -1 },
    { N_Predict: 1 },
    { MAX_TOKENS: 1 },
    { stream_options: { Include_Usage: false } },
    { tools: [{ Type: 'mcp' }] },
    { messages: [{ role: 'user', content: [{ image_url: 'http://10.0.0.1/' }] }] },
    { messages: [{ role: 'user', content: [{ type: 'new', new: { url: 'http://10.0.0.1/' } }] }] },
  ]
  for (const body of bodies)
    t.equal((await ask({ ...hi, ...body })).status, 400, JSON.stringify(body))
  t.equal(
    (await ask('{"model":"m","messages":[],"tools":[{"type":"mcp","type":"function"}]}')).status,
    400,
  )
  t.equal(backend.requests.length, 0)
})

t.test('media come as data URLs, or by https from a listed host', async (t) => {
  const { backend, ask } = await chatPath(t, {
    model:
      "accepts: [image], remote_media: [images.example, '*.cdn.example', '10.0.0.1', 'h.example:8443']",
  })
  const see = (url: string) =>
    ask({
      ...hi,
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
    })
  for (const url of [
    'data:image/png;base64,iVBORw0KGgo=',
    'https://images.example/a.png',
    'https://images.example:443/a.png',
    'https://a.b.cdn.example/',
    'https://10.0.0.1/a',
    'https://h.example:8443/a',
  ]) {
    t.equal((await see(url)).status, 200, url)
  }
  t.equal(backend.requests.length, 6)
  for (const url of [
    'http://images.example/a.png',
    'https://cdn.example/',
    'https://images.example:8443/',
    'a.png',
  ]) {
    const answer = await see(url)
    t.equal(answer.status, 400, url)
    const param = 'messages[0].content[0].image_url.url'
    t.match(await answer.json(), { error: { code: 'invalid_parameter', param } })
  }
  t.equal(backend.requests.length, 6)
})

t.test('a session keeps an address, and shows it to models that may fetch it', async (t) => {
  const chat = await startChat(t, {
    model: 'accepts: [text, image], remote_media: [images.example]',
  })
  const say = async (body: object) => {
    const answer = await chat.send(chat.sessionId, JSON.stringify({ stream: false, ...body }))
    return answer.status === 200 ? [200, (await answer.end()).length > 0] : refusal(answer)
  }
  const see = (url: string, model = 'm') =>
    say({ content: [{ type: 'image_url', image_url: { url } }], model })
  const url = 'https://images.example/a.png'
  for (const other of ['http://images.example/a.png', 'https://other.example/a.png']) {
    t.strictSame(await see(other), [400, 'invalid_parameter'], other)
  }
  t.strictSame(await see(url, 'other'), [400, 'unsupported_attachment'])
  t.equal(chat.backend.requests.length, 0)
  t.strictSame(await see(url), [200, true])
  t.match(String(chat.backend.requests[0]?.body), `"url":"${url}"`)
  t.strictSame(await say({ content: 'And now?' }), [200, true])
  t.match(String(chat.backend.requests[1]?.body), `"url":"${url}"`)
  t.strictSame(await say({ content: 'And you?', model: 'other' }), [200, true])
  t.notMatch(String(chat.backend.requests[2]?.body), 'images.example')
  t.match((await chat.messages(chat.sessionId))[0]?.content, [{ image_url: { url } }])
})

t.test('each endpoint has parameters of its own', async (t) => {
  const { ask } = await chatPath(t, {
    model: 'endpoints: [chat, completions, embeddings, rerank, moderations]',
  })
  const post = async (path: string, body: object) =>
    (await ask({ model: 'm', ...body }, path)).status
  t.equal(await post('/v1/completions', { prompt: 'x', suffix: 'y', logprobs: 5, echo: true }), 400)
  t.equal(await post('/v1/completions', { prompt: 'x', suffix: 'y', logprobs: 5 }), 200)
  t.equal(await post('/v1/completions', { prompt: [{ prompt_string: 'x' }] }), 400)
  t.equal(
    await post('/v1/embeddings', { input: 'x', dimensions: 5, encoding_format: 'float' }),
    200,
  )
  t.equal(await post('/v1/embeddings', { input: [{ image: 'http://10.0.0.1' }] }), 400)
  t.equal(await post('/v1/embeddings', { input: 'x', temperature: 1 }), 400)
  t.equal(await post('/v1/rerank', { query: 'x', documents: ['y'], top_n: 1 }), 200)
  t.equal(await post('/v1/rerank', { query: 'x', documents: [{ image: 'file:///a' }] }), 400)
  t.equal(await post('/v1/moderations', { input: 'x' }), 200)
})
