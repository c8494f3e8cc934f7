// A hosted target that refuses the operator's credential, or says that its quota is used up: what clients get, on every
// endpoint, streamed or not, and in sessions. Nothing that a vendor says of the operator's account reaches a client.

import t from 'tap'
import type { Test } from 'tap'
import type { Script } from '../fixtures/backend.ts'
import { failing, json, sse } from '../fixtures/backend-scripts.ts'
import { chatOf, messageIdOf, noLimits } from '../fixtures/session-chat.ts'
import { targetsPath } from '../fixtures/targets-path.ts'
import { until } from '../fixtures/until.ts'

const key = 'sk-operators-own-0123456789'

/** What a vendor writes into such refusals. */
const says = (code: unknown, type: string) => ({
  error: { message: `You exceeded it: ${key}, see https://vendor.example/billing`, type, code },
})

const refused = says('invalid_api_key', 'invalid_request_error')
const quota = says('insufficient_quota', 'insufficient_quota')

interface Case {
  readonly script: Script
  /** What the client gets; undefined: the other target's answer. */
  readonly code: string | undefined
  /** The same where no other target is left. */
  readonly last: string
}

const all: Readonly<Record<string, Case>> = {
  '401': {
    script: failing(401, { body: refused }),
    code: 'upstream_auth_error',
    last: 'upstream_auth_error',
  },
  '403': {
    script: failing(403, { body: refused }),
    code: 'upstream_auth_error',
    last: 'upstream_auth_error',
  },
  '402': { script: failing(402, { body: quota }), code: 'upstream_error', last: 'upstream_error' },
  '429 of the quota': {
    script: failing(429, { body: quota, headers: { 'retry-after': '7' } }),
    code: undefined,
    last: 'upstream_rate_limited',
  },
  '429 of the rate': {
    script: failing(429, { body: says('rate_limit_exceeded', 'tokens') }),
    code: undefined,
    last: 'upstream_rate_limited',
  },
}

const event = (code: unknown) => sse([`data: ${JSON.stringify(says(code, 'x'))}\n\n`])
const inside = (code: unknown) => json(says(code, 'x'))

/** The same after a 200: an event of a stream, or an error in the place of the answer. */
const late = (as: (code: unknown) => Script): Readonly<Record<string, Case>> => ({
  'a late 401': { script: as(401), code: 'upstream_auth_error', last: 'upstream_auth_error' },
  'a late 402': { script: as(402), code: 'upstream_error', last: 'upstream_error' },
  'a late 429': { script: as(429), code: undefined, last: 'upstream_rate_limited' },
  'a late quota': { script: as('insufficient_quota'), code: undefined, last: 'upstream_error' },
})

const messages = [{ role: 'user', content: 'Hi' }]

const asks: Readonly<Record<string, readonly [path: string, body: object]>> = {
  'chat, streamed': ['/v1/chat/completions', { messages, stream: true }],
  chat: ['/v1/chat/completions', { messages }],
  'completions, streamed': ['/v1/completions', { prompt: 'Hi', stream: true }],
  completions: ['/v1/completions', { prompt: 'Hi' }],
  embeddings: ['/v1/embeddings', { input: 'Hi' }],
  rerank: ['/v1/rerank', { query: 'Hi', documents: ['a', 'b'] }],
  moderations: ['/v1/moderations', { input: 'Hi' }],
}

const model =
  'endpoints: [chat, completions, embeddings, rerank, moderations], breaker: { failures: 1000 }'

function world(t: Test) {
  const keys = (i: number) => `priority: ${i + 1}, key: ${key}`
  return targetsPath(t, { keys, model, yaml: noLimits, tokens: 100_000_000 })
}

/** What a client may not see. */
const theirs = /exceeded it|operators-own|vendor\.example|insufficient_quota|invalid_api_key/

for (const [name, [path, body]] of Object.entries(asks)) {
  t.test(`${name}: what a vendor says of the operator's account`, async (t) => {
    const { backends, ask, asked, spent } = await world(t)
    const [first, second] = backends
    if (!first || !second) throw new Error('no backends')
    const isStream = 'stream' in body
    const sendOne = async () => {
      const before = asked()
      const paid = await spent()
      const answer = await ask({ model: 'm', ...body }, path)
      const text = await answer.text()
      const count = asked().map((total, i) => total - (before[i] ?? 0))
      t.notMatch(text, theirs)
      return { answer, text, count, cost: (await spent()) - paid }
    }
    const cases = { ...all, ...late(isStream ? event : inside) }
    for (const [what, { script, code, last }] of Object.entries(cases)) {
      first.once(script)
      const one = await sendOne()
      t.equal(one.answer.status === 200, code === undefined, what)
      t.strictSame(one.count, [1, code ? 0 : 1], what)
      if (code) t.match(JSON.parse(one.text), { error: { code } }, what)
      t.equal(one.cost > 0, !code, what)
      first.once(code ? failing(503) : script)
      second.once(script)
      const both = await sendOne()
      t.match(JSON.parse(both.text), { error: { code: last } }, `${what} of both`)
      t.strictSame([both.count, both.cost], [[1, 1], 0], what)
      const isLimited = last === 'upstream_rate_limited'
      t.equal(both.answer.headers.has('retry-after'), isLimited, what)
    }
  })
}

t.test('messages of a session: the same, and a refused one leaves no message', async (t) => {
  const { backends, gate, id, asked, spent, key: customer } = await world(t)
  const [first, second] = backends
  const { session, send, messages } = chatOf(t, gate, { id, key: customer })
  for (const stream of [true, false]) {
    for (const [what, { script, code, last }] of Object.entries({ ...all, ...late(event) })) {
      const at = await session({ model: 'm' })
      const before = asked()
      first?.once(script)
      const answer = await send(at, { content: 'Hi', stream })
      const text = (await answer.end()).toString()
      t.notMatch(text, theirs)
      t.equal(answer.status === 200, code === undefined, `${what}: ${text.slice(0, 99)}`)
      if (code) t.match(JSON.parse(text), { error: { code } }, what)
      t.strictSame(
        asked().map((total, i) => total - (before[i] ?? 0)),
        [1, code ? 0 : 1],
        what,
      )
      if (code) t.same(await messages(at), [], what)
      else await until(async () => (await messages(at)).at(-1)?.status === 'completed')
      if (!code && stream) t.ok(messageIdOf(answer))
      const paid = await spent()
      first?.once(code ? failing(503) : script)
      second?.once(script)
      const refusal = await send(at, { content: 'Hi', stream })
      t.match(await refusal.json(), { error: { code: last } }, `${what} of both`)
      t.equal(await spent(), paid)
    }
  }
})
