// What admit.lua and extend.lua are asked, and what they answer: a hold, or the error that tells the client what to do.

import t from 'tap'
import { admitCall, extendCall, offerWords, planWords, reopenCall } from '../../src/ledger/admit.ts'
import type { AskedAgain, LedgerWords } from '../../src/ledger/library.ts'
import { newHoldId, request, unlimited } from '../fixtures/ledger.ts'

const nowMs = 60_000 * 5 + 1000
const caller = { ref: 'a', hmac: 'h', scope: 'chat' } as const
const holdId = newHoldId()
const asked = request(caller, 400, { holdId, min: 5, promptTokens: 100, outputTokens: 50 })
const standing = { planName: 'a plan', plan: unlimited, windows: '1 2 1 2 1 2' }

type Answer = Exclude<LedgerWords['admit'], AskedAgain>

const admitted = (word: Answer, ...values: readonly unknown[]) =>
  admitCall(asked).read({ word, nowMs, values: [word, nowMs, ...values] })

const limits = [3, 2, -1, -1]
const account = ['acct', 'p', 'key']

/** A refusal of a known key: what was reached, and what belongs to it. */
const refused = (
  word: Answer,
  { which = '', owed = '0', most = -1, renewsAtMs = 0, held = 0 },
  limits: readonly number[] = [3, 0, 100, 5],
) => {
  const rest = [which, '3', 'a', 'k', owed, most, `${renewsAtMs}`, held]
  const answer = admitted(word, ...limits, ...rest)
  if (answer.word === 'ok') throw new Error('it was not refused')
  return answer
}

t.test('a request is asked for in whole tokens', async (t) => {
  const half = request(caller, 10.2, { holdId, min: 0.5, promptTokens: 99.5, outputTokens: 50 })
  const [scope, sizes, plan, model, , reopened] = admitCall(half).words(standing)
  t.same([scope, model, reopened], ['chat', 'm', ''])
  t.equal(sizes, `${holdId} 11 1 150 150 1`)
  t.equal(plan, '1 - - - a plan')
  const sliced = admitCall({ ...asked, isSliced: true, leastOutputTokens: 16 }).words(standing)
  t.equal(sliced[1], `${holdId} 400 5 150 116 8`, 'and takes an eighth when it will be extended')
})

t.test('a plan that is not there allows nothing', async (t) => {
  t.equal(planWords({ planName: 'a b', plan: undefined }, 'm'), '0 - - - a b')
  const plan = { ...unlimited, concurrency: 4, models: ['m'] }
  t.equal(planWords({ planName: 'p', plan }, 'm'), '1 - - 4 p')
})

t.test('an allowance is offered with the windows that it goes by', async (t) => {
  const { windows } = standing
  t.equal(offerWords({ plan: undefined, windows }), '- - 0 1 2 1 2 1 2')
  const allowance = { tokens: 7, every: 'day', rollover: true } as const
  t.equal(offerWords({ plan: { ...unlimited, allowance }, windows }), '7 day 1 1 2 1 2 1 2')
  const kept = { ...allowance, rollover: false }
  t.equal(offerWords({ plan: { ...unlimited, allowance: kept }, windows }), '7 day 0 1 2 1 2 1 2')
})

t.test('a hold, with limits that reset at the end of the minute', async (t) => {
  const call = admitCall(asked)
  const values = ['ok', nowMs, ...limits, '400', '7', ...account, '9', 120, '', '500', 1, 'A']
  const answer = call.read({ word: 'ok', nowMs, values })
  t.strictSame(answer, {
    word: 'ok',
    limits: { requests: { limit: 3, remaining: 2, resetMs: 59_000 }, tokens: undefined },
    amount: 400,
    chargedBefore: 7,
    accountId: 'acct',
    accountName: 'A',
    plan: 'p',
    keyId: 'key',
    owed: 9,
    mostTokens: 120,
    wouldRefuse: undefined,
    available: 500,
    keyHasLimits: true,
    nowMs,
  })
  if (answer.word !== 'ok') return
  const { amount, fields } = call.holdOf(answer)
  t.equal(amount, 400)
  t.match(fields, { id: holdId, ref: 'a', hmac: 'h', keyId: 'key', keyHasLimits: true, minute: 5 })
  t.equal(fields.countedTokens, 120, 'no more than the lower limit is counted')
})

t.test('shadow mode says with what it would have refused', async (t) => {
  const code = 'insufficient_balance'
  const noted = admitted('ok', ...limits, '0', '0', ...account, '9', -1, code, '0', 0, 'A')
  t.match(noted, { wouldRefuse: 'insufficient_balance', mostTokens: Infinity })
})

t.test('a lost hold is opened again by its key id, with no limit and no allowance', async (t) => {
  const answer = admitted('ok', ...limits, '400', '7', ...account, '9', -1, '', '500', 0, 'A')
  if (answer.word !== 'ok') return t.fail('it was refused')
  const hold = admitCall(asked).holdOf(answer)
  const [scope, sizes, plan, model, tail, keyId, offer] = reopenCall(hold).words(standing)
  t.same([scope, sizes, plan, model], ['', `${holdId} 400 0 0 0 1`, '1 - - - ', ''])
  t.match(tail, /^m \{"request_id":/)
  t.same([keyId, offer], ['key', '- - 0 1 2 1 2 1 2'])
})

t.test('a hold is made larger, or is gone', async (t) => {
  const answer = admitted('ok', ...limits, '400', '7', ...account, '9', -1, '', '500', 0, 'A')
  if (answer.word !== 'ok') return t.fail('it was refused')
  const call = extendCall(admitCall(asked).holdOf(answer), { amount: 500.5, least: 10 })
  t.same(call.words(standing), [`${holdId} 0 0 0 0`, '501 10 8', standing.windows])
  const larger = ['ok', nowMs, '450', '60']
  t.same(call.read({ word: 'ok', nowMs, values: larger }), {
    word: 'ok',
    amount: 450,
    available: 60,
  })
  t.same(call.read({ word: 'gone', nowMs, values: ['gone', nowMs] }), { word: 'gone' })
})

t.test('a limit that is reached, with what is left of both', async (t) => {
  const { error, mayPassNow } = refused('rate_limit_exceeded', { which: 'tokens', most: 100 })
  t.match(error, {
    code: 'rate_limit_exceeded',
    retryAfterMs: 59_000,
    caller: { accountId: 'a', keyId: 'k' },
    limits: {
      requests: { limit: 3, remaining: 0, resetMs: 59_000 },
      tokens: { limit: 100, remaining: 5, resetMs: 59_000 },
    },
  })
  t.match(error.message, 'The limit of tokens a minute is reached')
  t.notOk(mayPassNow)
})

t.test('of an unknown key nothing is known', async (t) => {
  const answer = admitted('invalid_api_key')
  t.match(answer, { word: 'invalid_api_key', owed: 0, mayPassNow: false })
  if (answer.word === 'ok') return
  t.equal(answer.error.code, 'invalid_api_key')
  t.same([answer.error.limits, answer.error.caller], [undefined, undefined])
})

t.test('a budget that is used up says when it is renewed', async (t) => {
  const renewsAtMs = Date.UTC(2026, 11, 1)
  const { error } = refused('budget_exceeded', { which: 'key', renewsAtMs })
  t.match(error, { code: 'budget_exceeded', status: 402, retry: false, type: 'billing_error' })
  t.match(error.message, /budget of the key .* renewed at 2026-12-01T00:00:00Z/)
  t.same(error.shortage, { available: 3, needed: 5, owed: 0, renews_at: 1_796_083_200 })
})

t.test('money that is missing, and money that is owed', async (t) => {
  const short = refused('insufficient_balance', { which: 'balance' })
  const shortage = { available: 3, needed: 5, owed: 0 }
  t.match(short.error, { code: 'insufficient_balance', shortage })
  const owing = refused('insufficient_balance', { which: 'balance', owed: '7' })
  t.match(owing.error.message, 'owes 7 tokens')
  t.equal(owing.owed, 7)
})

t.test('what other holds take may come back at once', async (t) => {
  const isLate = (word: Answer, more: { which?: string; held?: number }) =>
    refused(word, more).mayPassNow
  t.ok(isLate('concurrency_limit_exceeded', { which: 'account' }))
  t.ok(isLate('insufficient_balance', { held: 1 }))
  t.notOk(isLate('insufficient_balance', { which: 'balance' }))
  t.ok(isLate('budget_exceeded', { which: 'key', held: 1 }))
  t.notOk(isLate('budget_exceeded', { which: 'key' }))
})

t.test('a request that can never pass is told how to change', async (t) => {
  const neverFits = (limit: number) => ({ param: 'n', message: `at most ${limit}` })
  const values = ['invalid_parameter', nowMs, ...limits, 'tokens', '3', 'a', 'k', '0', 9, '0', 0]
  const answer = admitCall({ ...asked, neverFits }).read({
    word: 'invalid_parameter',
    nowMs,
    values,
  })
  t.match(answer, { error: { code: 'invalid_parameter', param: 'n', message: 'at most 9' } })
})

t.test('a hold that has ended before it was made may be asked for again', async (t) => {
  t.match(refused('released', {}).error, { code: 'ledger_unavailable' })
})

t.test('a reply that lacks what belongs to its word is ledger_unavailable', async (t) => {
  t.throws(() => admitted('ok'), { code: 'ledger_unavailable' })
})
