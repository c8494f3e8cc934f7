// A limit of tokens a minute below what the model may generate: a request without max_tokens gets a shorter output, and
// a request that can never pass is refused as such at once, without a wait.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { refOf } from '../fixtures/money.ts'
import { chatOf } from '../fixtures/session-chat.ts'
import { keys } from '../../src/redis/keys.ts'

const plans = `
plans:
  default: { tokens_per_minute: 2000, models: [m] }
  wide: { tokens_per_minute: 100000 }
plugins: { auth: { refusals_per_minute: 3 } }
`

async function start(t: Test) {
  const backend = await startBackend(t, chat())
  const model = `targets: [{ url: '${backend.url}' }], max_output_tokens: 4096`
  const yaml = `models: { m: { ${model}, price: { input: 1, output: 1 } } }\n${plans}`
  return { backend, gateway: await startGateway(t, { yaml }) }
}

const hello = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
const jsonOf = (sent: { readonly body: Buffer } | undefined) =>
  JSON.parse(String(sent?.body)) as { readonly max_tokens: number; readonly messages: unknown[] }
const words = (count: number) => 'word '.repeat(count)

interface Refusal {
  readonly status: number
  readonly retryAfter: string | null
  readonly code: string
  readonly param: string | null
  readonly message: string
}

async function refusalOf(answer: Response): Promise<Refusal> {
  const { error } = (await answer.json()) as { error: Refusal }
  return { ...error, status: answer.status, retryAfter: answer.headers.get('retry-after') }
}

t.test('an output without max_tokens is lowered to fit the limit', async (t) => {
  const { backend, gateway } = await start(t)
  // A new account for each, so that no minute is used up.
  const boundOf = async (body: object, keyLimit?: number) => {
    const { id, key } = await gateway.account(100_000, keyLimit ? { plan: 'wide' } : {})
    const limits = keyLimit ? { tokens_per_minute: keyLimit } : undefined
    const own = limits ? (await gateway.keyFor(id, { limits })).key : key
    const answer = await gateway.call('/v1/chat', own, body)
    t.equal(answer.status, 200, await answer.text())
    const bound = jsonOf(backend.requests.at(-1)).max_tokens
    const left = Number(answer.headers.get('x-ratelimit-remaining-tokens'))
    return { bound, left }
  }
  const plan = await boundOf(hello)
  t.ok(plan.bound > 1900 && plan.bound < 2000, `${plan.bound}`)
  t.equal(plan.left, 0)
  const three = await boundOf({ ...hello, n: 3 })
  t.ok(three.bound > 600 && three.bound <= Math.floor(2000 / 3), `${three.bound}`)
  const key = await boundOf(hello, 500)
  t.ok(key.bound > 400 && key.bound < 500, `${key.bound}`)
  t.equal((await boundOf({ ...hello, max_tokens: 1500 })).bound, 1500)
})

t.test('a request that can never pass is 400, with what to do', async (t) => {
  const { backend, gateway } = await start(t)
  const refused = async (body: object) => {
    const { key } = await gateway.account(100_000)
    return await refusalOf(await gateway.call('/v1/chat', key, body))
  }
  const never = { status: 400, code: 'invalid_parameter', retryAfter: null }
  const long = { ...hello, messages: [{ role: 'user', content: words(4000) }] }
  t.match(await refused(long), { ...never, param: 'messages', message: /limit of 2000 a minute/ })
  t.match(await refused({ ...long, max_tokens: 5 }), { ...never, param: 'messages' })
  const tooLong = { ...never, param: 'messages', message: /Shorten/ }
  t.match(await refused({ ...long, n: 2 }), tooLong, 'fewer choices would not help')
  const stated = await refused({ ...hello, max_tokens: 2000 })
  t.match(stated, { ...never, param: 'max_tokens', message: /Lower max_tokens to \d+ or less/ })
  const most = Number(/to (\d+) or/.exec(stated.message)?.[1])
  const { key } = await gateway.account(100_000)
  const fits = await gateway.call('/v1/chat', key, { ...hello, max_tokens: most })
  t.equal(fits.status, 200, await fits.text())
  const choices = { ...hello, n: 2, max_completion_tokens: 1000 }
  t.match(await refused(choices), { ...never, param: 'max_completion_tokens' })
  const fewer = { ...never, param: 'n', message: /fewer than \d+ choices/ }
  t.match(await refused({ ...hello, n: 200 }), fewer)
  t.match(await refused({ ...hello, n: 1024, max_tokens: 1, user: words(500) }), fewer)
  t.equal(backend.requests.length, 1)
})

t.test('such refusals are limited, too', async (t) => {
  const { gateway } = await start(t)
  const { key } = await gateway.account(100_000)
  const statuses: number[] = []
  for (let i = 0; i < 5; i++) {
    const answer = await gateway.call('/v1/chat', key, { ...hello, max_tokens: 3000 })
    await answer.text()
    statuses.push(answer.status)
  }
  t.same(statuses, [400, 400, 400, 429, 429])
})

t.test('a session is lowered in the same way, and uses only a history that fits', async (t) => {
  const { backend, gateway } = await start(t)
  const { client } = await connectLink(t, gateway.redis.socket)
  const { id, key } = await gateway.account(1_000_000)
  const session = `/api/chat/sessions/${await chatOf(t, gateway, { id, key }).session()}/messages`
  const plan = (name: string) => gateway.admin('PATCH', `accounts/${id}`, { plan: name })
  const say = async (content: string) => {
    const answer = await gateway.call(session, key, { content, stream: false })
    t.equal(answer.status, 200, await answer.text())
    return jsonOf(backend.requests.at(-1))
  }
  await plan('wide')
  await say(words(3000))
  await plan('default')
  // Pretends that the minute in which it was counted is over.
  await client.hdel(keys.account(refOf({ id, key })), 'minute')
  const sent = await say('and now?')
  t.equal(sent.messages.length, 1, 'what does not fit is left out')
  t.ok(sent.max_tokens < 2000)
})

t.test("a session's history fits the limit of the key, too", async (t) => {
  const { backend, gateway } = await start(t)
  const { id, key } = await gateway.account(1_000_000, { plan: 'wide' })
  const { key: narrow } = await gateway.keyFor(id, { limits: { tokens_per_minute: 500 } })
  const session = `/api/chat/sessions/${await chatOf(t, gateway, { id, key }).session()}/messages`
  const say = async (caller: string, content: string) => {
    const answer = await gateway.call(session, caller, { content, stream: false })
    t.equal(answer.status, 200, await answer.text())
    return jsonOf(backend.requests.at(-1)).messages.length
  }
  await say(key, words(600))
  t.equal(await say(narrow, 'and now?'), 1, 'what does not fit is left out')
  t.equal(await say(key, 'and now?'), 5)
})
