// Requests and tokens a minute, and concurrency: of the account by its plan, and of the key.

import t from 'tap'
import type { Test } from 'tap'
import type { Plan } from '../../src/config/config.ts'
import { keys } from '../../src/redis/keys.ts'
import {
  connectLink,
  makeAccount,
  openLedger,
  request,
  topUp,
  unlimited,
} from '../fixtures/ledger.ts'
import type { TestAccount, TestLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { withinOneMinute } from '../fixtures/windows.ts'

const server = await startRedis(t)

async function open(t: Test, plan: Partial<Plan>, key: object = {}) {
  const link = await connectLink(t, server.socket)
  const ledger = await openLedger(t, {
    link,
    plans: () => new Map([['default', { ...unlimited, ...plan }]]),
  })
  const caller = await makeAccount(link, { key })
  await topUp(ledger, caller, 1_000_000)
  return { link, ledger, caller }
}

/** The error that the work throws. */
const refusalOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )

const sides = [
  ['the account', { requestsPerMinute: 3, tokensPerMinute: 100, concurrency: 3 }, {}],
  ['the key', {}, { rpm: 3, tpm: 100, concurrency: 3 }],
] as const

type Side = (typeof sides)[number][0]

const rowOf = ({ ref, hmac }: TestAccount, side: Side) =>
  side === 'the key' ? keys.key(ref, hmac) : keys.account(ref)

/** Adds to the counters as if another minute had counted. */
async function addToMinute(
  { client }: TestLink,
  caller: TestAccount,
  { side, minutes }: { readonly side: Side; readonly minutes: number },
): Promise<void> {
  await client.hincrby(rowOf(caller, side), 'minute', minutes)
}

for (const [side, plan, key] of sides) {
  t.test(
    `requests a minute of ${side}: the limit is exact, refusals are not counted`,
    async (t) => {
      const { seen, counted } = await withinOneMinute(async () => {
        const { link, ledger, caller } = await open(
          t,
          { requestsPerMinute: 3, ...plan, concurrency: 99 },
          { ...key, concurrency: '' },
        )
        const seen: unknown[] = []
        for (let i = 0; i < 3; i++) {
          const small = request(caller, 1, { promptTokens: 1, outputTokens: 1 })
          seen.push((await ledger.admit(small)).fields.limits.requests)
        }
        for (let i = 0; i < 3; i++) seen.push(await refusalOf(ledger.admit(request(caller, 1))))
        // Counters of a key exist only if the key has limits of its own.
        const counters = [keys.account(caller.ref), keys.key(caller.ref, caller.hmac)]
        const counted = await Promise.all(counters.map((one) => link.client.hget(one, 'requests')))
        return { seen, counted }
      })
      const refusal = {
        code: 'rate_limit_exceeded',
        limits: { requests: { limit: 3, remaining: 0, resetMs: Number } },
        retryAfterMs: Number,
      }
      const admitted = [2, 1, 0].map((remaining) => ({ limit: 3, remaining }))
      t.match(seen, [...admitted, refusal, refusal, refusal])
      t.equal(seen.length, 6)
      t.strictSame(counted, ['3', side === 'the key' ? '3' : null])
    },
  )

  t.test(`tokens a minute of ${side}: the estimate counts, then what was used`, async (t) => {
    const { first, second, third } = await withinOneMinute(async () => {
      const { ledger, caller } = await open(
        t,
        { ...plan, requestsPerMinute: 99 },
        { ...key, rpm: '' },
      )
      const wanted = () => request(caller, 1, { promptTokens: 20, outputTokens: 50 })
      const first = await ledger.admit(wanted())
      const second = await refusalOf(ledger.admit(wanted()))
      await ledger.settle(first, { charge: 1, prompt: 20, cached: 0, completion: 5 })
      const third = await ledger.admit(wanted())
      return { first, second, third }
    })
    t.match(first.fields.limits.tokens, { limit: 100, remaining: 30 })
    t.match(second, { code: 'rate_limit_exceeded', message: /of tokens a minute/ })
    t.match(third.fields.limits.tokens, { remaining: 5 })
  })

  t.test(`tokens a minute of ${side}: what can never pass is no matter of waiting`, async (t) => {
    const { ledger, caller } = await open(t, { ...plan, concurrency: 99 }, key)
    const asked = (output: number, leastOutputTokens: number) =>
      request(caller, 1, { promptTokens: 20, outputTokens: output, leastOutputTokens })
    const refused = { code: 'invalid_parameter', limits: { tokens: { limit: 100 } } }
    const limits: number[] = []
    const neverFits = (limit: number) => {
      limits.push(limit)
      return { param: 'max_tokens' }
    }
    t.match(await refusalOf(ledger.admit({ ...asked(81, 81), neverFits })), {
      ...refused,
      param: 'max_tokens',
      caller: { accountId: String },
    })
    t.match(await refusalOf(ledger.admit(asked(500, 81))), refused)
    t.same(limits, [100])
    const { fields } = await ledger.admit(asked(500, 80))
    t.equal(fields.countedTokens, 100, 'fewer are counted where fewer do')
    t.equal(fields.limits.tokens?.remaining, 0)
  })

  t.test(`a new minute gives ${side} all of its requests and tokens again`, async (t) => {
    const { before, refusals, after } = await withinOneMinute(async () => {
      const { link, ledger, caller } = await open(
        t,
        { ...plan, concurrency: 99 },
        { ...key, concurrency: '' },
      )
      const wanted = () => request(caller, 1, { promptTokens: 10, outputTokens: 20 })
      for (let i = 0; i < 2; i++) await ledger.admit(wanted())
      const before = (await ledger.admit(wanted())).fields.limits
      const refusals = [await refusalOf(ledger.admit(wanted()))]
      await addToMinute(link, caller, { side, minutes: -1 })
      const after = (await ledger.admit(wanted())).fields.limits
      return { before, refusals, after }
    })
    t.match(before, { requests: { remaining: 0 }, tokens: { remaining: 10 } })
    t.match(refusals, [{ code: 'rate_limit_exceeded' }])
    t.match(after, { requests: { remaining: 2 }, tokens: { remaining: 70 } })
  })

  t.test(`what was used is no correction of ${side}'s tokens in a later minute`, async (t) => {
    const { sums } = await withinOneMinute(async () => {
      const { link, ledger, caller } = await open(
        t,
        { ...plan, requestsPerMinute: 99 },
        { ...key, rpm: '' },
      )
      const wanted = request(caller, 1, { promptTokens: 20, outputTokens: 50 })
      const hold = await ledger.admit(wanted)
      await addToMinute(link, caller, { side, minutes: 1 })
      await ledger.settle(hold, { charge: 1, prompt: 20, cached: 0, completion: 5 })
      return { sums: await link.client.hget(rowOf(caller, side), 'tokens') }
    })
    t.equal(sums, '70')
  })

  t.test(`what runs at once for ${side}: a settlement makes room`, async (t) => {
    const { ledger, caller } = await open(
      t,
      { ...plan, requestsPerMinute: 99, tokensPerMinute: 9999 },
      { ...key, rpm: '', tpm: '' },
    )
    const hold = await ledger.admit(request(caller, 1))
    await ledger.admit(request(caller, 1))
    await ledger.admit(request(caller, 1))
    await t.rejects(ledger.admit(request(caller, 1)), {
      code: 'concurrency_limit_exceeded',
      retryAfterMs: 1000,
    })
    await ledger.settle(hold, { charge: 1, prompt: 1, cached: 0, completion: 1 })
    await ledger.admit(request(caller, 1))
  })
}

t.test('where account and key have a limit, the tighter one is shown', async (t) => {
  const { ledger, caller } = await open(
    t,
    { requestsPerMinute: 10, tokensPerMinute: 50 },
    { rpm: 5, tpm: 900 },
  )
  const { limits } = (await ledger.admit(request(caller, 1))).fields
  t.match(limits, { requests: { limit: 5, remaining: 4 }, tokens: { limit: 50, remaining: 20 } })
  t.ok((limits.requests?.resetMs ?? 0) <= 60_000)
})

t.test('the largest limits are shown exactly', async (t) => {
  const most = Number.MAX_SAFE_INTEGER
  const { ledger, caller } = await open(t, { requestsPerMinute: most, tokensPerMinute: most })
  const { limits } = (await ledger.admit(request(caller, 1))).fields
  t.match(limits.requests, { limit: most, remaining: most - 1 })
  t.equal(limits.tokens?.limit, most)
  t.ok(Math.abs((limits.tokens?.remaining ?? 0) - most) < 100)
})

t.test('no limit is shown where there is none', async (t) => {
  const { ledger, caller } = await open(t, {})
  t.same((await ledger.admit(request(caller, 1))).fields.limits, {
    requests: undefined,
    tokens: undefined,
  })
})
