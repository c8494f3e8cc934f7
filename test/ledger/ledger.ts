// Promises 1 to 5 of the ledger, each under attack on a real Redis: never negative, conserved, exactly once, owed. For
// gateways that die see ledger-lease.ts, for Redis away ledger-away.ts.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { GatewayError } from '../../src/errors.ts'
import { Hold } from '../../src/ledger/hold.ts'
import { keys } from '../../src/redis/keys.ts'
import {
  makeAccount,
  newHoldId,
  openFor,
  openOn,
  request,
  topUp,
  untilBalance,
  used,
  usageList,
} from '../fixtures/ledger.ts'
import type { OpenOptions } from '../fixtures/ledger.ts'
import type { RedisServer } from '../fixtures/redis-server.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'
import { pick } from '../fixtures/pick.ts'

const page = { limit: 100, order: 'asc' } as const
const codeOf = (error: unknown) => (error instanceof GatewayError ? error.code : String(error))

let server: RedisServer

t.before(async () => {
  server = await startRedis(t)
})

const open = (t: Test, more: Partial<OpenOptions> = {}) => openOn(t, { on: server, ...more })

t.test('a request holds what it wants, pays what it used, and gets the rest back', async (t) => {
  const { ledger, caller } = await openFor(t, 1000, { on: server })
  const hold = await ledger.admit(request(caller, 400))
  t.equal(hold.amount, 400)
  t.match(await ledger.balance(caller.ref), { balance: 1000, reserved: 400, available: 600 })
  const settled = await ledger.settle(hold, { ...used(150), estimated: true })
  t.match(settled, { charge: 150, owed: 0, isWaiting: false })
  t.match(await ledger.balance(caller.ref), {
    balance: 850,
    reserved: 0,
    available: 850,
    granted: 1000,
    spent: 150,
  })
  const { data } = await ledger.transactions(caller.ref, page)
  t.match(data, [
    { type: 'topup', amount: 1000, balance_after: 1000 },
    {
      type: 'charge',
      amount: -150,
      balance_after: 850,
      model: 'm',
      estimated: true,
      request_id: 'req_1',
      usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12, cached_tokens: 2 },
    },
  ])
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('1 never negative: of 200 requests over two gateways, 7 can pay and pass', async (t) => {
  const gateways = [await open(t), await open(t)] as const
  const [{ link, ledger }] = gateways
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 7 * 50 + 49)
  const answers = await Promise.allSettled(
    Array.from({ length: 200 }, (_, i) =>
      (gateways[i % 2] ?? gateways[0]).ledger.admit(request(caller, 50)),
    ),
  )
  t.equal(answers.filter(({ status }) => status === 'fulfilled').length, 7)
  const codes = new Set(
    answers.flatMap((answer) => (answer.status === 'rejected' ? [codeOf(answer.reason)] : [])),
  )
  t.same([...codes], ['insufficient_balance'])
  t.match(await ledger.balance(caller.ref), { available: 49, reserved: 350 })
})

t.test('the last token can be spent: what is there is granted, down to the least', async (t) => {
  const { ledger, caller } = await openFor(t, 30, { on: server })
  t.equal((await ledger.admit(request(caller, 100, { min: 20 }))).amount, 30)
  await t.rejects(ledger.admit(request(caller, 100, { min: 1 })), {
    code: 'insufficient_balance',
    status: 402,
  })
})

t.test('3 exactly once: settling twice gives the same answer and one charge', async (t) => {
  const { link, ledger, caller } = await openFor(t, 1000, { on: server })
  const hold = await ledger.admit(request(caller, 400))
  const [one, two] = await Promise.all([
    ledger.settle(hold, used(150)),
    ledger.settle(hold, used(250)),
  ])
  t.same(one, two)
  link.cut()
  await until(() => !link.up)
  await untilBalance(ledger, caller)
  t.match(
    await ledger.balance(caller.ref),
    { balance: 850, reserved: 0 },
    'also after everything was sent again',
  )
})

t.test('3 exactly once: an admission whose reply was lost is taken back', async (t) => {
  const own = await startRedis(t)
  const { link, ledger, caller } = await openFor(t, 1000, { on: own })
  const { ledger: impatient } = await open(t, { on: own, commandTimeoutMs: 150 })
  process.kill(own.pid, 'SIGSTOP')
  const wanted = request(caller, 400)
  await t.rejects(impatient.admit(wanted), { code: 'ledger_unavailable', status: 503 })
  process.kill(own.pid, 'SIGCONT')
  await until(async () => (await link.client.hget(keys.account(caller.ref), 'requests')) === '1')
  t.pass('Redis did carry it out')
  await untilBalance(ledger, caller, { reserved: 0 })
  await t.rejects(
    ledger.admit(wanted),
    { code: 'ledger_unavailable' },
    'and one that comes later still is refused',
  )
})

t.test('4 owed: what was used beyond hold and balance is paid by the next top-up', async (t) => {
  const { ledger, caller } = await openFor(t, 100, { on: server })
  const hold = await ledger.admit(request(caller, 60))
  t.match(await ledger.settle(hold, { ...used(250), cut: true }), { charge: 250, owed: 150 })
  t.match(await ledger.balance(caller.ref), { balance: 0, available: 0, owed: 150, spent: 100 })
  await topUp(ledger, caller, 100)
  t.match(await ledger.balance(caller.ref), { balance: 0, available: 0, owed: 50, spent: 200 })
  await topUp(ledger, caller, 100)
  t.match(await ledger.balance(caller.ref), { balance: 50, available: 50, owed: 0, spent: 250 })
  const { data } = await ledger.transactions(caller.ref, page)
  t.match(data.slice(1), [
    { type: 'charge', amount: -100, owed: 150, balance_after: 0, cut: true, estimated: false },
    { type: 'topup', amount: 100, balance_after: 100 },
    { type: 'repayment', amount: -100, balance_after: 0 },
    { type: 'topup', amount: 100, balance_after: 100 },
    { type: 'repayment', amount: -50, balance_after: 50 },
  ])
  t.notOk(data.some((row, i) => i !== 1 && 'owed' in row))
  const now = Math.floor(Date.now() / 1000)
  const usage = await usageList(ledger, caller.ref, { from: now - 3600, to: now, bucket: 'hour' })
  const costs = usage.data.map(({ cost, requests }) => [cost, requests])
  t.same(costs, [[250, 1]], 'usage has it all when it was used, and a repayment is none')
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('4 owed: what a request could pay nothing of is on record too', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  const hold = await ledger.admit(request(caller, 0))
  t.match(await ledger.settle(hold, used(5)), { charge: 5, owed: 5 })
  t.match((await ledger.transactions(caller.ref, page)).data, [
    { amount: 0, balance_after: 0, owed: 5 },
  ])
})

t.test('4 owed: nothing that costs is admitted, and nothing can be taken', async (t) => {
  const { ledger, caller } = await openFor(t, 100, { on: server })
  const [one, other] = [
    await ledger.admit(request(caller, 40)),
    await ledger.admit(request(caller, 60)),
  ]
  await ledger.settle(one, used(50))
  t.match(await ledger.balance(caller.ref), { available: 0, reserved: 60, owed: 10 })
  await t.rejects(ledger.admit(request(caller, 1, { min: 0 })), {
    code: 'insufficient_balance',
    status: 402,
    shortage: { available: 0, needed: 0, owed: 10 },
    message: /owes 10 tokens/,
  })
  t.equal((await ledger.admit(request(caller, 0))).amount, 0, 'what costs nothing goes on')
  const taken = { ref: caller.ref, idempotencyId: newHoldId(), amount: -1, type: 'adjustment' }
  await t.rejects(ledger.credit({ ...taken, type: 'adjustment' }), {
    code: 'insufficient_balance',
    status: 409,
    message: /owes 10 tokens/,
  })
  await ledger.settle(other, used(20))
  t.match(await ledger.balance(caller.ref), { balance: 30, reserved: 0, owed: 0, spent: 70 })
  await t.rejects(ledger.admit(request(caller, 31)), {
    code: 'insufficient_balance',
    shortage: { available: 30, needed: 31, owed: 0 },
  })
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('4 owed: a positive adjustment pays what is owed first', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  await ledger.settle(await ledger.admit(request(caller, 0)), used(7))
  const given = { ref: caller.ref, idempotencyId: newHoldId(), amount: 10 }
  await ledger.credit({ ...given, type: 'adjustment' })
  t.match(await ledger.balance(caller.ref), { balance: 3, owed: 0, granted: 10, spent: 7 })
})

t.test('4 owed: a debt never leaves what can be counted', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  const most = Number.MAX_SAFE_INTEGER
  const holds = [await ledger.admit(request(caller, 0)), await ledger.admit(request(caller, 0))]
  for (const hold of holds) await ledger.settle(hold, used(most - 3))
  t.match(await ledger.balance(caller.ref), { balance: 0, owed: most })
  await topUp(ledger, caller, most)
  t.match(await ledger.balance(caller.ref), { balance: 0, owed: 0, spent: most })
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('what is implausible is in the transaction and once in the events, not owed', async (t) => {
  const told: number[] = []
  const events = { implausible: (tokens: number) => void told.push(tokens) }
  const { link, ledger, caller } = await openFor(t, 100, { on: server, events })
  const free = await ledger.admit(request(caller, 0))
  const nothing = { charge: 0, prompt: 0, cached: 0, completion: 0 }
  await ledger.settle(free, { ...nothing, implausible: 3 })
  const paid = await ledger.admit(request(caller, 10))
  await ledger.settle(paid, { ...used(5), implausible: 2 ** 60 })
  link.cut()
  await until(() => !link.up)
  await until(() => ledger.isOpen)
  t.match((await ledger.transactions(caller.ref, page)).data.slice(1), [
    { type: 'charge', amount: 0, implausible: 3 },
    { type: 'charge', amount: -5, implausible: Number.MAX_SAFE_INTEGER },
  ])
  t.same(told, [3, Number.MAX_SAFE_INTEGER])
  t.match(await ledger.balance(caller.ref), { balance: 95, owed: 0 })
})

t.test('5 a request that cost nothing leaves no transaction', async (t) => {
  const { ledger, caller } = await openFor(t, 100, { on: server })
  const hold = await ledger.admit(request(caller, 60))
  await ledger.settle(hold, { charge: 0, prompt: 0, cached: 0, completion: 0 })
  t.equal((await ledger.transactions(caller.ref, page)).data.length, 1)
  t.match(await ledger.balance(caller.ref), { balance: 100, reserved: 0 })
})

t.test('an admission a day late charges nothing', async (t) => {
  const { ledger, caller } = await openFor(t, 1000, { on: server })
  const old = (Date.now() - 25 * 3_600_000).toString(16).padStart(12, '0')
  await t.rejects(ledger.admit(request(caller, 10, { holdId: `${old}${newHoldId().slice(12)}` })), {
    code: 'ledger_unavailable',
  })
  t.match(await ledger.balance(caller.ref), { balance: 1000, reserved: 0 })
})

t.test('amounts up to 2^53-1 are exact to the token', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  const most = Number.MAX_SAFE_INTEGER
  await topUp(ledger, caller, most)
  await t.rejects(topUp(ledger, caller, 1), { code: 'invalid_parameter', param: 'amount' })
  const big = await ledger.admit(request(caller, most - 2))
  const small = await ledger.admit(request(caller, 2))
  t.equal(big.amount, most - 2)
  await t.rejects(ledger.admit(request(caller, 1)), { code: 'insufficient_balance' })
  t.match(await ledger.settle(big, used(most - 4)), { charge: most - 4, owed: 0 })
  t.match(await ledger.balance(caller.ref), {
    granted: most,
    spent: most - 4,
    balance: 4,
    reserved: 2,
    available: 2,
  })
  t.match(await ledger.settle(small, used(1)), { charge: 1 })
  const { data } = await ledger.transactions(caller.ref, page)
  t.same(pick(data, 'amount'), [most, 4 - most, -1])
  t.same(pick(data, 'balance_after'), [most, 4, 3])
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('a settlement a day late charges nothing, and the audit tells of it', async (t) => {
  const spoolDir = await tempDir(t)
  const { ledger, caller } = await openFor(t, 1000, { on: server, spoolDir })
  const hold = await ledger.admit(request(caller, 100))
  const old = (Date.now() - 25 * 3_600_000).toString(16).padStart(12, '0')
  const lost = new Hold({ ...hold.fields, id: `${old}${newHoldId().slice(12)}` }, 100)
  t.match(await ledger.settle(lost, used(50)), { charge: 0, isWaiting: false })
  t.match(await ledger.balance(caller.ref), { balance: 1000, reserved: 100 })
  t.match(await ledger.audit(caller.ref), { late: 1, differences: [] })
  const line = JSON.parse(await readFile(join(spoolDir, 'late.ndjson'), 'utf8')) as object
  t.match(line, { kind: 'settle', accountId: hold.fields.accountId, charge: 50 })
})

t.test('a settlement that finds neither hold nor mark, but is young, charges now', async (t) => {
  const { ledger, caller } = await openFor(t, 1000, { on: server })
  const hold = await ledger.admit(request(caller, 100))
  const forgotten = new Hold({ ...hold.fields, id: newHoldId() }, 100)
  t.match(await ledger.settle(forgotten, used(50)), { charge: 50, owed: 0 })
  t.match(await ledger.balance(caller.ref), { balance: 950, reserved: 100 })
})

t.test('an admission that is repeated answers the same and holds once', async (t) => {
  const { link, ledger, caller } = await openFor(t, 100, { on: server })
  const wanted = request(caller, 100)
  const holds = await Promise.all([ledger.admit(wanted), ledger.admit(wanted)])
  t.same(pick(holds, 'amount'), [100, 100])
  t.match(await ledger.balance(caller.ref), { reserved: 100 })
  t.equal(await link.client.hget(keys.account(caller.ref), 'requests'), '1')
})
