// A real llama.cpp server behind a gateway process, used through OpenAI's own packages for Node and Python, with only
// the base URL changed. The account is charged the usage that the server reports, and nothing else.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import OpenAI from 'openai'
import t from 'tap'
import type { Test } from 'tap'
import type { Transaction } from '../../src/ledger/transaction.ts'
import { runCli } from '../fixtures/cli.ts'
import { adminToken, spawnGateway } from '../fixtures/gateway.ts'
import { eventually } from '../fixtures/until.ts'
import { ensurePython, startModelServer } from '../fixtures/model-server.ts'

// The first run on a machine makes two Python environments.
t.setTimeout(300_000)

const backendKey = 'sk-the-backend-s-own'
const [chatServer, embedder, python] = await Promise.all([
  startModelServer(t, { key: backendKey, contextTokens: 32_768 }),
  startModelServer(t, { embeddings: true }),
  ensurePython(['openai==3.52.0']),
])
const gateway = await spawnGateway(t, {
  yaml: `
models:
  tiny:
    aliases: [gpt-4o-mini]
    targets: [{ url: "${chatServer.url}", key: ${backendKey} }]
    price: { input: 1, output: 4, cached_input: 0.5 }
    context_window: 32768
    max_output_tokens: 30000
    endpoints: [chat, completions]
    extra_parameters: [ignore_eos]
  embed:
    targets: [{ url: "${embedder.url}", model: tiny }]
    price: { input: 1, output: 0 }
    endpoints: [embeddings]
  locked:
    targets: [{ url: "${chatServer.url}", model: tiny, key: sk-wrong }]
`,
})
const { id: accountId, key } = await gateway.account(1_000_000)
const clientFor = (apiKey: string) =>
  new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 })
const client = clientFor(key)
const modelIds = ['embed', 'gpt-4o-mini', 'locked', 'tiny']
const messages = [{ role: 'user' as const, content: 'Say something.' }]

interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly prompt_tokens_details?: { readonly cached_tokens?: number } | null
}

/** The charge by the prices of `tiny` in the configuration above. */
function priceOf({ prompt_tokens, completion_tokens, prompt_tokens_details }: Usage): number {
  const cached = prompt_tokens_details?.cached_tokens ?? 0
  return Math.ceil(prompt_tokens - cached + cached * 0.5 + completion_tokens * 4)
}

async function transactions(): Promise<readonly Transaction[]> {
  const answer = await gateway.call('/api/billing/transactions', key)
  return ((await answer.json()) as { data: readonly Transaction[] }).data
}

async function chargedExactly(test: Test, usage: Usage | null | undefined, requestId: string) {
  if (!usage) return void test.fail('no usage came')
  const found = await eventually(async () =>
    (await transactions()).find(({ request_id }) => request_id === requestId),
  )
  test.match(found, { type: 'charge', amount: -priceOf(usage), estimated: false })
  test.match(found.usage, {
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
  })
}

const idOf = ({ headers }: Response) => headers.get('x-request-id') ?? ''

t.test('a whole answer is charged what the server reports', async (t) => {
  const { data, response } = await client.chat.completions
    .create({ model: 'tiny', messages, max_tokens: 40 })
    .withResponse()
  t.ok(data.choices[0]?.message.content)
  t.ok((data.usage?.completion_tokens ?? 41) <= 40)
  await chargedExactly(t, data.usage, idOf(response))
})

t.test('a streamed answer, by an alias, is charged what the server reports', async (t) => {
  const asked = client.chat.completions.create({
    model: 'gpt-4o-mini',
    messages,
    max_tokens: 40,
    stream: true,
    stream_options: { include_usage: true },
  })
  const { data: stream, response } = await asked.withResponse()
  let text = ''
  let usage: Usage | null | undefined
  let finish: string | null | undefined
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? ''
    finish ??= chunk.choices[0]?.finish_reason
    usage = chunk.usage ?? usage
  }
  t.ok(text)
  t.match(finish, /^(stop|length)$/)
  await chargedExactly(t, usage, idOf(response))
})

t.test('usage that was not asked for is not sent, and still charged', async (t) => {
  const { data: stream, response } = await client.chat.completions
    .create({ model: 'tiny', messages, max_tokens: 20, stream: true })
    .withResponse()
  for await (const { usage } of stream) t.notOk(usage)
  const found = await eventually(async () =>
    (await transactions()).find(({ request_id }) => request_id === idOf(response)),
  )
  t.match(found, { estimated: false, usage: { prompt_tokens: Number, completion_tokens: Number } })
})

t.test('completions and embeddings go through, and cost their tokens', async (t) => {
  const completed = await client.completions
    .create({ model: 'tiny', prompt: 'A gateway', max_tokens: 10 })
    .withResponse()
  t.ok(completed.data.choices[0]?.text)
  t.ok((completed.data.usage?.completion_tokens ?? 11) <= 10)
  await chargedExactly(t, completed.data.usage, idOf(completed.response))
  const embedded = await client.embeddings
    .create({ model: 'embed', input: ['A gateway counts.', 'A model answers.'] })
    .withResponse()
  t.equal(embedded.data.data.length, 2)
  t.ok((embedded.data.data[0]?.embedding.length ?? 0) > 100)
  const found = await eventually(async () =>
    (await transactions()).find(({ request_id }) => request_id === idOf(embedded.response)),
  )
  t.equal(found.amount, -embedded.data.usage.prompt_tokens)
})

t.test('models are listed by the ids that clients send', async (t) => {
  const ids: string[] = []
  for await (const { id } of client.models.list()) ids.push(id)
  t.same(ids.sort(), modelIds)
})

t.test('each class of error arrives as the package knows it', async (t) => {
  const poor = await gateway.account(3, { name: 'poor' })
  const create = (model: string, more = {}) =>
    client.chat.completions.create({ model, messages, ...more })
  const refused = (call: Promise<unknown>, status: number, code: string | RegExp) =>
    t.rejects(call, { status, code })
  await refused(clientFor(`${key.slice(0, -1)}!`).models.list(), 401, 'invalid_api_key')
  await refused(
    clientFor(poor.key).chat.completions.create({ model: 'tiny', messages }),
    402,
    'insufficient_balance',
  )
  await refused(create('nothing'), 404, 'model_not_found')
  await refused(create('tiny', { max_tokens: -1 }), 400, 'invalid_parameter')
  await refused(create('embed'), 404, 'model_not_found')
  await refused(create('locked'), 502, 'upstream_auth_error')
})

t.test("the server's own refusal arrives as it wrote it, without its key", async (t) => {
  const before = (await transactions()).length
  const answer = await gateway.call('/v1/chat/completions', key, {
    model: 'tiny',
    messages,
    temperature: 'hot',
  })
  t.equal(answer.status, 400)
  const text = await answer.text()
  t.match(JSON.parse(text), { error: { code: 400, type: 'invalid_request_error' } })
  t.notMatch(text, backendKey)
  t.equal((await transactions()).length, before, 'and costs nothing')
})

t.test('a key over its limit is told when to come back', async (t) => {
  const narrow = await narrowKey()
  const ask = () =>
    clientFor(narrow)
      .chat.completions.create({ model: 'tiny', messages, max_tokens: 40 })
      .catch((thrown: unknown) => thrown)
  let error: unknown
  // Of three requests in a row, two are in the same minute.
  for (let tries = 0; tries < 3 && !(error instanceof Error); tries++) error = await ask()
  t.ok(error instanceof OpenAI.RateLimitError)
  t.match(error, { status: 429, code: 'rate_limit_exceeded' })
  if (error instanceof OpenAI.RateLimitError) t.match(error.headers?.get('retry-after'), /^\d+$/)
})

/** A key that may send one request a minute. */
async function narrowKey(): Promise<string> {
  const limits = { tokens_per_minute: 90 }
  const answer = await gateway.admin('POST', `accounts/${accountId}/keys`, { limits })
  return ((await answer.json()) as { key: string }).key
}

t.test('a client that leaves stops the server, and pays what was generated', async (t) => {
  const asked = {
    model: 'tiny',
    messages,
    max_tokens: 30_000, // the better part of a minute, were nobody to stop it
    stream: true as const,
    ignore_eos: true, // llama.cpp's own
  }
  const { data: stream, response } = await client.chat.completions.create(asked).withResponse()
  let pieces = 0
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) pieces++
    if (pieces === 50) break
  }
  await eventually(async () => ((await busySlots()) === 0 ? true : undefined))
  const found = await eventually(async () =>
    (await transactions()).find(({ request_id }) => request_id === idOf(response)),
  )
  t.match(found, { type: 'charge', estimated: true })
  const { completion_tokens = 0 } = found.usage ?? {}
  t.ok(completion_tokens >= 50 && completion_tokens < 30_000, `${completion_tokens} tokens`)
})

async function busySlots(): Promise<number> {
  const answer = await fetch(new URL('/slots', chatServer.url), {
    headers: { authorization: `Bearer ${backendKey}` },
  })
  const slots = (await answer.json()) as readonly { is_processing: boolean }[]
  return slots.filter(({ is_processing }) => is_processing).length
}

interface PythonSaw {
  readonly models: readonly string[]
  readonly whole: { request_id: string; text: string; usage: Usage }
  readonly streamed: { request_id: string; text: string; usage: Usage; finish: string }
  readonly embeddings: number
  readonly refusals: Readonly<Record<string, unknown>>
}

t.test("OpenAI's Python package sees the same", async (t) => {
  const poor = await gateway.account(3, { name: 'poor in Python' })
  const given = { base_url: `${gateway.url}/v1`, key, poor: poor.key, narrow: await narrowKey() }
  const script = `${import.meta.dirname}/real_backend.py`
  const { stdout } = await promisify(execFile)(python, [script, JSON.stringify(given)])
  const saw = JSON.parse(stdout) as PythonSaw
  t.same([...saw.models].sort(), modelIds)
  t.equal(saw.embeddings, 2)
  t.ok(saw.whole.text)
  t.ok(saw.streamed.text)
  t.match(saw.streamed.finish, /^(stop|length)$/)
  await chargedExactly(t, saw.whole.usage, saw.whole.request_id)
  await chargedExactly(t, saw.streamed.usage, saw.streamed.request_id)
  t.same(saw.refusals, {
    key: ['AuthenticationError', 401, 'invalid_api_key'],
    balance: ['APIStatusError', 402, 'insufficient_balance'],
    model: ['NotFoundError', 404, 'model_not_found'],
    ours: ['BadRequestError', 400, 'invalid_parameter'],
    theirs: ['BadRequestError', 400, 400],
    limit: ['RateLimitError', 429, 'rate_limit_exceeded'],
  })
})

t.test('in the end the journal adds up', async (t) => {
  await eventually(async () => {
    const answer = await gateway.admin('GET', `accounts/${accountId}/balance`)
    const { reserved } = (await answer.json()) as { reserved: number }
    return reserved === 0 ? true : undefined
  })
  const words = ['audit', '--admin', gateway.adminUrl, '--token', adminToken]
  const { code, out, err } = await runCli(words)
  t.equal(code, 0, out + err)
  const sum = (await transactions()).reduce((total, { amount }) => total + amount, 0)
  const balance = await gateway.call('/api/billing/balance', key)
  t.match(await balance.json(), { balance: sum, reserved: 0 })
})
