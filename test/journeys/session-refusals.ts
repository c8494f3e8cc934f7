// Refusals in a session before an answer begins: with their real status, leaving no message, no charge, a free session
// and a free Idempotency-Key. Their order: test/lifecycle.ts.

import t from 'tap'
import type { Test } from 'tap'
import type { Script } from '../fixtures/backend.ts'
import { chat as model } from '../fixtures/backend-model.ts'
import { failing, json, reset, silent, sse } from '../fixtures/backend-scripts.ts'
import { balanceOf, differencesOf, transactionsOf } from '../fixtures/money.ts'
import { refusal, startChat } from '../fixtures/session-chat.ts'
import type { Chat } from '../fixtures/session-chat.ts'

/** One of each kind; all of them: test/sessions/sending/parse-send.ts. */
const refused: readonly (readonly [unknown, number, string])[] = [
  ['{', 400, 'invalid_json'],
  [`{"content":${'['.repeat(70)}${']'.repeat(70)}}`, 400, 'invalid_json'],
  ['{"messages":[{"role":"user","content":"a","content":"b"}]}', 400, 'invalid_json'],
  [{}, 400, 'missing_parameter'],
  [{ content: 5 }, 400, 'invalid_parameter'],
  [{ messages: [{ role: 'assistant', content: 'a' }] }, 400, 'invalid_parameter'],
  [{ content: 'a', service_tier: 'flex' }, 400, 'unknown_parameter'],
  [{ content: 'a', model: 'nobody' }, 404, 'model_not_found'],
  [{ content: 'x'.repeat(1_100_000) }, 413, 'body_too_large'],
]

t.test('an invalid message is refused, leaves nothing, and costs nothing', async (t) => {
  const chat = await startChat(t)
  for (const [body, status, code] of refused) {
    const asked = typeof body === 'string' ? { body } : {}
    const answer = await chat.send(chat.sessionId, body, asked)
    t.same(await refusal(answer), [status, code], JSON.stringify(body).slice(0, 80))
  }
  const wrongType = await chat.send(chat.sessionId, 'Hi', {
    headers: { 'content-type': 'text/plain' },
  })
  t.same(await refusal(wrongType), [415, 'unsupported_media_type'])
  const invalid = Buffer.from('{"content":"\xff"}', 'latin1')
  t.same(await refusal(await chat.at(`/${chat.sessionId}/messages`, { body: invalid })), [
    400,
    'invalid_json',
  ])
  t.strictSame(await chat.messages(chat.sessionId), [])
  t.match(await balanceOf(chat.gateway, chat.account), { spent: 0, reserved: 0 })
  t.equal(chat.backend.requests.length, 0)
})

t.test('a full session accepts no more, and charges nothing for it', async (t) => {
  const chat = await startChat(t, { yaml: 'limits: { session: 4KiB }' })
  await (await chat.send(chat.sessionId, 'x'.repeat(2000))).end()
  const { spent } = await balanceOf(chat.gateway, chat.account)
  const answer = await chat.send(chat.sessionId, 'y'.repeat(2000))
  t.same(await refusal(answer), [403, 'storage_quota_exceeded'])
  t.match(await balanceOf(chat.gateway, chat.account), { spent, reserved: 0 })
  t.equal((await chat.messages(chat.sessionId)).length, 2)
  t.equal(chat.backend.requests.length, 1)
})

interface Failure {
  readonly script: Script
  readonly model?: string
  readonly status: number
  readonly code: string
  /** The backend's own body, which is passed on. */
  readonly relayed?: object
  /** The Retry-After header; absent if each try may have been served. */
  readonly retryAfter?: string
}

const theirs = { error: { message: 'theirs', type: 'x', param: null, code: 'theirs' } }
const theirs400 = { error: { message: 'theirs', type: 'x', param: null, code: 400 } }

const failures: Readonly<Record<string, Failure>> = {
  '400': { script: failing(400, { body: theirs }), status: 400, code: 'theirs', relayed: theirs },
  '400 without an error': {
    script: failing(400, { body: {} }),
    status: 502,
    code: 'upstream_error',
  },
  '401': { script: failing(401), status: 502, code: 'upstream_auth_error' },
  '429': { script: failing(429), status: 429, code: 'upstream_rate_limited', retryAfter: '1' },
  '500': { script: failing(500), status: 502, code: 'upstream_error' },
  '503': { script: failing(503), status: 503, code: 'upstream_unavailable', retryAfter: '1' },
  'a reset': { script: reset, status: 502, code: 'upstream_error' },
  'a role, then silence': {
    script: sse(['data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'], {
      end: false,
    }),
    model: 'timeouts: { first_token: 500ms }',
    status: 504,
    code: 'upstream_timeout',
  },
  'a stream that ends before it says anything': {
    script: sse(['data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n']),
    status: 502,
    code: 'upstream_incomplete',
  },
  'an error event': {
    script: sse([`data: ${JSON.stringify({ error: { message: 'no', code: 'theirs' } })}\n\n`]),
    status: 502,
    code: 'upstream_error',
  },
  'a role, then an error event that is a 429': {
    script: sse([
      'data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n',
      'data: {"error":{"code":429}}\n\n',
    ]),
    status: 429,
    code: 'upstream_rate_limited',
    retryAfter: '1',
  },
  'an error event that is their 400': {
    script: sse([`event: error\ndata: ${JSON.stringify(theirs400)}\n\n`]),
    status: 400,
    code: 'theirs',
    relayed: theirs400,
  },
  'JSON in place of a stream': { script: json({}), status: 502, code: 'upstream_incomplete' },
}

for (const [name, failure] of Object.entries(failures)) {
  t.test(`${name} from the backend: a real status, and nothing is left`, async (t) => {
    const chat = await startChat(t, { script: failure.script, model: failure.model })
    for (const stream of [true, false]) await isRefused(t, chat, { failure, stream })
    await isUntouched(t, chat)
    // The key is free again: the same try may succeed.
    chat.backend.on(model())
    const headers = { 'Idempotency-Key': 'true' }
    const live = await chat.send(chat.sessionId, { content: 'Hi', stream: true }, { headers })
    t.equal(live.status, 200)
    t.equal(live.headers['idempotent-replayed'], undefined)
    await live.end()
    t.match(await chat.messages(chat.sessionId), [{ role: 'user' }, { status: 'completed' }])
  })
}

async function isRefused(
  t: Test,
  chat: Chat,
  { failure, stream }: { readonly failure: Failure; readonly stream: boolean },
): Promise<void> {
  const { status, code, relayed, retryAfter } = failure
  const headers = { 'Idempotency-Key': `${stream}` }
  const answer = await chat.send(chat.sessionId, { content: 'Hi', stream }, { headers })
  t.match(answer.headers, { 'content-type': /^application\/json/, 'x-request-id': /^req_/ })
  t.equal(answer.headers['x-message-id'], undefined, 'no message is named')
  t.equal(answer.headers['retry-after'], retryAfter)
  const body = await answer.json()
  t.equal(answer.status, status)
  if (relayed) t.strictSame(body, relayed)
  else t.match(body, { error: { code }, request_id: answer.headers['x-request-id'] })
}

async function isUntouched(t: Test, chat: Chat): Promise<void> {
  t.strictSame(await chat.messages(chat.sessionId), [])
  t.match(await chat.read(`/${chat.sessionId}`), { message_count: 0, active_message_id: null })
  t.match(await balanceOf(chat.gateway, chat.account), { spent: 0, reserved: 0 })
  t.equal((await transactionsOf(chat.gateway, chat.account)).length, 1)
  t.strictSame(await differencesOf(chat.gateway), [])
}

t.test('an absent backend is a refusal, too', async (t) => {
  const chat = await startChat(t)
  await chat.backend.stop()
  const failure = { script: silent, status: 503, code: 'upstream_unavailable', retryAfter: '1' }
  await isRefused(t, chat, { failure, stream: true })
  await isUntouched(t, chat)
})
