// Promises 1 to 5 of the ledger, each tried to be broken on a real Redis: never negative, conserved, exactly once,
// bounded. Gateways that die: ledger-lease.ts; Redis away: ledger-away.ts.

import t from 'tap'
import type { Test } from 'tap'
import { GatewayError } from '../../src/errors.ts'
import { Hold } from '../../src/ledger/hold.ts'
import { keys } from '../../src/redis.ts'
import { makeAccount, newHoldId, openOn, request, topUp, used } from '../fixtures/ledger.ts'
import type { OpenOptions } from '../fixtures/ledger.ts'
import type { RedisServer } from '../fixtures/redis-server.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const page = { limit: 100, order: 'asc' } as const
const codeOf = (error: unknown) => (error instanceof GatewayError ? error.code : String(error))

let server: RedisServer

t.before(async () => {
  server = await startRedis(t)
})

const open = (t: Test, more: Partial<OpenOptions> = {}) => openOn(t, { on: server, ...more })

t.test('a request holds what it wants, pays what it used, and gets the rest back', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  const hold = await ledger.admit(request(caller, 400))
  t.equal(hold.amount, 400)
  t.match(await ledger.balance(caller.ref), { balance: 1000, reserved: 400, available: 600 })
  const settled = await ledger.settle(hold, { ...used(150), estimated: true })
  t.match(settled, { charge: 150, shortfall: 0, isWaiting: false })
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

t.test(
  '1 never negative: 200 requests on a balance for 7, over two gateways: exactly 7 are admitted',
  async (t) => {
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
  },
)

t.test(
  'the last token can be spent: what is there is granted, down to the least that makes sense',
  async (t) => {
    const { link, ledger } = await open(t)
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 30)
    t.equal((await ledger.admit(request(caller, 100, { min: 20 }))).amount, 30)
    await t.rejects(ledger.admit(request(caller, 100, { min: 1 })), {
      code: 'insufficient_balance',
      status: 402,
    })
  },
)

t.test('3 exactly once: settling twice gives the same answer and one charge', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  const hold = await ledger.admit(request(caller, 400))
  const [one, two] = await Promise.all([
    ledger.settle(hold, used(150)),
    ledger.settle(hold, used(250)),
  ])
  t.same(one, two)
  link.cut()
  await until(() => !link.up)
  await until(() =>
    ledger.balance(caller.ref).then(
      () => true,
      () => false,
    ),
  )
  t.match(
    await ledger.balance(caller.ref),
    { balance: 850, reserved: 0 },
    'also after everything was sent again',
  )
})

t.test('3 exactly once: an admission whose reply was lost is taken back', async (t) => {
  const own = await startRedis(t)
  const { link, ledger } = await open(t, { on: own })
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  const { ledger: impatient } = await open(t, { on: own, commandTimeoutMs: 150 })
  process.kill(own.pid, 'SIGSTOP')
  const wanted = request(caller, 400)
  await t.rejects(impatient.admit(wanted), { code: 'ledger_unavailable', status: 503 })
  process.kill(own.pid, 'SIGCONT')
  await until(async () => (await link.client.hget(keys.account(caller.ref), 'requests')) === '1')
  t.pass('Redis did carry it out')
  await until(() =>
    ledger.balance(caller.ref).then(
      ({ reserved }) => reserved === 0,
      () => false,
    ),
  )
  await t.rejects(
    ledger.admit(wanted),
    { code: 'ledger_unavailable' },
    'and one that comes later still is refused',
  )
})

t.test('4 bounded: what was used beyond hold and balance is a shortfall, not a debt', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 100)
  const hold = await ledger.admit(request(caller, 60))
  t.match(await ledger.settle(hold, { ...used(250), cut: true }), { charge: 100, shortfall: 150 })
  t.match(await ledger.balance(caller.ref), { balance: 0, available: 0 })
  const { data } = await ledger.transactions(caller.ref, page)
  t.match(data[1], { amount: -100, shortfall: 150, cut: true, estimated: false })
})

t.test(
  '4 bounded: a shortfall of a request that could be charged nothing is on record too',
  async (t) => {
    const { link, ledger } = await open(t)
    const caller = await makeAccount(link)
    const hold = await ledger.admit(request(caller, 0))
    t.match(await ledger.settle(hold, used(5)), { charge: 0, shortfall: 5 })
    t.match((await ledger.transactions(caller.ref, page)).data, [
      { amount: 0, balance_after: 0, shortfall: 5 },
    ])
  },
)

t.test('5 what cost nothing leaves no transaction', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 100)
  const hold = await ledger.admit(request(caller, 60))
  await ledger.settle(hold, { charge: 0, prompt: 0, cached: 0, completion: 0 })
  t.equal((await ledger.transactions(caller.ref, page)).data.length, 1)
  t.match(await ledger.balance(caller.ref), { balance: 100, reserved: 0 })
})

t.test('an admission a day late charges nothing', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
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
  t.match(await ledger.settle(big, used(most - 4)), { charge: most - 4, shortfall: 0 })
  t.match(await ledger.balance(caller.ref), {
    granted: most,
    spent: most - 4,
    balance: 4,
    reserved: 2,
    available: 2,
  })
  t.match(await ledger.settle(small, used(1)), { charge: 1 })
  const { data } = await ledger.transactions(caller.ref, page)
  t.same(
    data.map(({ amount }) => amount),
    [most, 4 - most, -1],
  )
  t.same(
    data.map(({ balance_after }) => balance_after),
    [most, 4, 3],
  )
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test(
  'a settlement more than a day late charges nothing, and the audit tells of it',
  async (t) => {
    const { link, ledger } = await open(t)
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 1000)
    const hold = await ledger.admit(request(caller, 100))
    const old = (Date.now() - 25 * 3_600_000).toString(16).padStart(12, '0')
    const lost = new Hold({ ...hold.fields, id: `${old}${newHoldId().slice(12)}` }, 100)
    t.match(await ledger.settle(lost, used(50)), { charge: 0, isWaiting: false })
    t.match(await ledger.balance(caller.ref), { balance: 1000, reserved: 100 })
    t.match(await ledger.audit(caller.ref), { late: 1, differences: [] })
  },
)

t.test('a settlement that finds neither hold nor mark, but is young, charges now', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  const hold = await ledger.admit(request(caller, 100))
  const forgotten = new Hold({ ...hold.fields, id: newHoldId() }, 100)
  t.match(await ledger.settle(forgotten, used(50)), { charge: 50, shortfall: 0 })
  t.match(await ledger.balance(caller.ref), { balance: 950, reserved: 100 })
})

t.test('an admission that is repeated answers the same and holds once', async (t) => {
  const { link, ledger } = await open(t)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 100)
  const wanted = request(caller, 100)
  const holds = await Promise.all([ledger.admit(wanted), ledger.admit(wanted)])
  t.same(
    holds.map(({ amount }) => amount),
    [100, 100],
  )
  t.match(await ledger.balance(caller.ref), { reserved: 100 })
  t.equal(await link.client.hget(keys.account(caller.ref), 'requests'), '1')
})
