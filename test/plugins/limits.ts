// Limits from outside: requests and tokens a minute and concurrency, by the account's plan and by key; and the headers
// of every answer.

import t from 'tap'
import type { Test } from 'tap'
import { newKey } from '../../src/accounts/api-key.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf, refusedWith, startGateway } from '../fixtures/gateway.ts'
import type { Account, InProcess } from '../fixtures/gateway.ts'
import { Reading, ask, balanceOf, outputOnly, refOf, transactionsOf } from '../fixtures/money.ts'
import { withinOneMinute } from '../fixtures/windows.ts'
import { pick } from '../fixtures/pick.ts'

const headersOf = (answer: Response, what: 'requests' | 'tokens') =>
  ['limit', 'remaining'].map((name) => Number(answer.headers.get(`x-ratelimit-${name}-${what}`)))

/** `<limit>: <remaining>` of requests. */
const requestsOf = (answers: readonly Response[]) =>
  answers.map((one) => headersOf(one, 'requests').join(': '))

const resetForm = /^(\d+ms|\d+s|1m0s)$/

interface TestPlan {
  readonly requests?: number
  readonly tokens?: number
  readonly concurrency?: number
  readonly gate?: Gate
}

const planOf = ({ requests = 100, tokens = 100_000, concurrency = 50 }: TestPlan) =>
  `{ requests_per_minute: ${requests}, tokens_per_minute: ${tokens}, concurrency: ${concurrency} }`

async function start(t: Test, plan: TestPlan = {}) {
  const backend = await startBackend(t, chat(plan.gate ? { gate: plan.gate } : {}))
  const plans = `{ default: ${planOf(plan)}, wide: ${planOf({ requests: 1000 })} }`
  const yaml = [
    outputOnly(backend.url, plans),
    'plugins: { metering: { min_output_tokens: 1 } }',
  ].join('\n')
  return { backend, gateway: await startGateway(t, { yaml }) }
}

const narrowKey = async (gateway: InProcess, { id }: Account, limits: object) =>
  (await gateway.keyFor(id, { limits })).key

t.test('requests a minute: the next is refused, told when to retry, not counted', async (t) => {
  const { backend, gateway } = await start(t, { requests: 3 })
  const answers = await withinOneMinute(async () => {
    const { key } = await gateway.account(1000)
    const list: Response[] = []
    for (let i = 0; i < 5; i++) list.push(await gateway.call('/v1/chat', key, ask(5, i === 1)))
    return list
  })
  const [first, second, third, fourth] = answers
  t.same(pick(answers, 'status'), [200, 200, 200, 429, 429])
  t.same(requestsOf(answers), ['3: 2', '3: 1', '3: 0', '3: 0', '3: 0'])
  for (const one of answers) {
    t.match(one.headers.get('x-ratelimit-reset-requests'), resetForm)
    t.match(one.headers.get('x-ratelimit-reset-tokens'), resetForm)
  }
  if (!fourth) return
  const seconds = Number(fourth.headers.get('retry-after'))
  const ms = Number(fourth.headers.get('retry-after-ms'))
  t.ok(seconds >= 1 && seconds <= 60)
  t.equal(Math.ceil(ms / 1000), seconds)
  t.equal(await codeOf(fourth), 'rate_limit_exceeded')
  t.ok(backend.requests.length % 3 === 0, 'refused before the backend')
  for (const one of [first, second, third]) await one?.text()
})

t.test('tokens a minute: first the estimate counts, then the real usage', async (t) => {
  const { gateway } = await start(t, { tokens: 400 })
  const seen = await withinOneMinute(async () => {
    const account = await gateway.account(10_000)
    const first = await gateway.call('/v1/chat', account.key, ask(300, false))
    const usage = ((await first.json()) as { usage: { total_tokens: number } }).usage
    const large = await gateway.call('/v1/chat', account.key, ask(1000, false))
    const second = await gateway.call('/v1/chat', account.key, ask(300, false))
    await second.text()
    return { account, first, usage, large, second }
  })
  const { account, first, usage, large, second } = seen
  t.same([first.status, large.status, second.status], [200, 400, 200])
  const [limit = 0, left = 0] = headersOf(first, 'tokens')
  t.equal(limit, 400)
  t.ok(left < 100, 'all that may be generated is counted at first')
  const body = (await large.json()) as { error: { code: string; message: string } }
  t.equal(body.error.code, 'invalid_parameter')
  t.match(body.error.message, /Lower max_tokens/)
  t.same(headersOf(large, 'tokens'), [400, 400 - usage.total_tokens], 'only what was used')
  t.same(headersOf(large, 'requests'), [100, 99], 'a refusal counts no request')
  t.same(headersOf(second, 'requests'), [100, 98])
  t.equal((await transactionsOf(gateway, account)).length, 3)
})

t.test('concurrency of the plan: one more is refused until one has ended', async (t) => {
  const gate = new Gate()
  const { backend, gateway } = await start(t, { concurrency: 2, gate })
  const account = await gateway.account(1000)
  const one = gateway.call('/v1/chat', account.key, ask(5, true))
  const two = gateway.call('/v1/chat', account.key, ask(5, false))
  await backend.request(1)
  const refused = await gateway.call('/v1/chat', account.key, ask(5, true))
  t.equal(refused.status, 429)
  t.equal(refused.headers.get('retry-after'), '1')
  t.equal(refused.headers.get('retry-after-ms'), '1000')
  t.ok(refused.headers.get('x-ratelimit-remaining-requests'))
  t.equal(await codeOf(refused), 'concurrency_limit_exceeded')
  t.equal((await balanceOf(gateway, account)).reserved, 10)
  gate.open()
  t.match(await new Reading(await one).end(), /\[DONE\]/)
  t.equal((await two).status, 200)
  t.equal((await gateway.call('/v1/chat', account.key, ask(5, false))).status, 200)
  t.equal(backend.requests.length, 3)
})

t.test('limits of a key apply to that key and not to its account', async (t) => {
  const gate = new Gate()
  gate.open()
  const { gateway } = await start(t, { gate })
  const answers = await withinOneMinute(async () => {
    const account = await gateway.account(10_000)
    const byRequests = await narrowKey(gateway, account, { requests_per_minute: 1 })
    const byTokens = await narrowKey(gateway, account, { tokens_per_minute: 50 })
    const call = (key: string) => gateway.call('/v1/chat', key, ask(100, false))
    return [
      await call(byRequests),
      await call(byRequests),
      await call(byTokens),
      await call(account.key),
    ]
  })
  t.same(pick(answers, 'status'), [200, 429, 400, 200])
  t.same(requestsOf(answers), ['1: 0', '1: 0', '100: 99', '100: 98'], 'the tighter of both')
  t.same(headersOf(answers[2] ?? Response.error(), 'tokens'), [50, 50])
})

t.test('concurrency of a key leaves the other keys alone', async (t) => {
  const gate = new Gate()
  const { backend, gateway } = await start(t, { gate })
  const account = await gateway.account(1000)
  const narrow = await narrowKey(gateway, account, { concurrency: 1 })
  const running = gateway.call('/v1/chat', narrow, ask(5, true))
  await backend.request(0)
  const refused = await gateway.call('/v1/chat', narrow, ask(5, true))
  t.equal(await codeOf(refused), 'concurrency_limit_exceeded')
  const other = gateway.call('/v1/chat', account.key, ask(5, true))
  await backend.request(1)
  gate.open()
  await new Reading(await running).end()
  await new Reading(await other).end()
  t.equal((await gateway.call('/v1/chat', narrow, ask(5, false))).status, 200)
})

t.test('an account has the limits of its plan; another counts from the next request', async (t) => {
  const { gateway } = await start(t, { requests: 1 })
  const [narrow, refused, widened] = await withinOneMinute(async () => {
    const { id, key } = await gateway.account(1000)
    const call = () => gateway.call('/v1/chat', key, ask(5, false))
    const before = [await call(), await call()]
    t.equal((await gateway.admin('PATCH', `accounts/${id}`, { plan: 'wide' })).status, 200)
    return [...before, await call()]
  })
  t.same([narrow?.status, refused?.status, widened?.status], [200, 429, 200])
  t.same(widened && headersOf(widened, 'requests'), [1000, 998])
})

t.test('refusals for other reasons have the limit headers too, and do not count', async (t) => {
  const { gateway } = await start(t)
  const { poor, served } = await withinOneMinute(async () => {
    const { id, key } = await gateway.account(0)
    const poor = await gateway.call('/v1/chat', key, ask(5, true))
    await gateway.admin('POST', `accounts/${id}/topup`, { amount: 1000 })
    const served = await gateway.call('/v1/chat', key, ask(5, true))
    await served.text()
    return { poor, served }
  })
  t.same(await refusedWith(poor), [402, 'insufficient_balance'])
  t.same(headersOf(poor, 'requests'), [100, 100])
  t.same(headersOf(poor, 'tokens'), [100_000, 100_000])
  t.same(headersOf(served, 'requests'), [100, 99])
})

t.test('an answer to a failed backend keeps its limit headers', async (t) => {
  const { backend, gateway } = await start(t)
  await backend.stop()
  const { key } = await gateway.account(1000)
  const answer = await gateway.call('/v1/chat', key, ask(5, true))
  t.equal(await codeOf(answer), 'upstream_unavailable')
  t.equal(answer.headers.get('x-ratelimit-limit-requests'), '100')
})

t.test('routes without a hold count their own requests, with the same headers', async (t) => {
  const { gateway } = await start(t, { requests: 2 })
  const { key } = await gateway.account(1000)
  const paths = ['/api/billing/balance', '/v1/models', '/v1/api/billing/balance']
  const answers: Response[] = []
  for (const path of paths) answers.push(await gateway.call(path, key))
  t.same(pick(answers, 'status'), [200, 200, 429])
  t.same(requestsOf(answers), ['2: 1', '2: 0', '2: 0'])
  const refused = answers[2] ?? Response.error()
  t.match(refused.headers.get('x-ratelimit-reset-requests'), resetForm)
  t.ok(Number(refused.headers.get('retry-after')) >= 1)
  t.ok(Number(refused.headers.get('retry-after-ms')) > 0)
  t.equal(await codeOf(refused), 'rate_limit_exceeded')
  const paid = await gateway.call('/v1/chat', key, ask(5, false))
  t.equal(paid.status, 200, 'paid work is counted apart')
})

t.test('sends that only read count as requests without a hold', async (t) => {
  const { backend, gateway } = await start(t, { requests: 3 })
  const answers = await withinOneMinute(async () => {
    const { key } = await gateway.account(1000)
    const made = await gateway.call('/api/chat/sessions', key, {})
    const { id } = (await made.json()) as { readonly id: string }
    const send = async (headers: Readonly<Record<string, string>>) => {
      const answer = await fetch(`${gateway.url}/api/chat/sessions/${id}/messages`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          ...headers,
        },
        body: JSON.stringify({ content: 'Hi', max_tokens: 5, stream: false }),
      })
      return {
        status: answer.status,
        left: headersOf(answer, 'requests')[1],
        text: await answer.text(),
      }
    }
    const once = { 'idempotency-key': 'once' }
    const on = { 'last-event-id': `msg_${'0'.repeat(32)}:1` }
    return [await send(once), await send(once), await send(on), await send(once), await send(on)]
  })
  t.same(pick(answers, 'status'), [200, 200, 404, 429, 429])
  t.same(pick(answers, 'left'), [2, 1, 0, 0, 0])
  t.equal(answers[1]?.text, answers[0]?.text)
  t.equal(backend.requests.length, 1)
})

t.test('an invented key uses up nothing of the account that it names', async (t) => {
  const { gateway } = await start(t, { requests: 2 })
  const statuses = await withinOneMinute(async () => {
    const account = await gateway.account(1000)
    const path = '/api/billing/balance'
    const all = [(await gateway.call(path, account.key)).status]
    for (let i = 0; i < 3; i++) {
      all.push((await gateway.call(path, newKey(refOf(account)))).status)
    }
    all.push((await gateway.call(path, account.key)).status)
    return all
  })
  t.strictSame(statuses, [200, 401, 401, 401, 200])
})
