// The promises of the ledger, each tried to be broken on a real Redis.

import t from 'tap'
import type { Test } from 'tap'
import type { RedisServer } from '../fixtures/redis-server.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import {
  connectLink,
  makeAccount,
  newHoldId,
  openLedger,
  request,
  tempDir,
  topUp,
  until,
  used,
} from '../fixtures/ledger.ts'
import type { LedgerLink } from '../../src/ledger/ledger.ts'
import { GatewayError } from '../../src/errors.ts'
import { Hold } from '../../src/ledger/hold.ts'
import { keys } from '../../src/redis.ts'

const page = { limit: 100, order: 'asc' } as const
const codeOf = (error: unknown) => (error instanceof GatewayError ? error.code : String(error))
const durable = ['--appendonly', 'yes', '--appendfsync', 'always']

let server: RedisServer

t.before(async () => {
  server = await startRedis(t)
})

async function open(
  t: Test,
  more: { on?: RedisServer; leaseMs?: number; commandTimeoutMs?: number; spoolDir?: string } = {},
) {
  const { on = server, leaseMs = 30_000, commandTimeoutMs, spoolDir } = more
  const link = await connectLink(t, on.socket, commandTimeoutMs)
  return { link, ledger: await openLedger(t, { link, leaseMs, spoolDir }) }
}

/** Nobody is reaped before Redis is up for a lease; its uptime counts whole seconds. */
function reapingStarted({ client }: LedgerLink) {
  return until(async () => !(await client.info('server')).includes('uptime_in_seconds:0\r'))
}

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
  const { link, ledger } = await open(t, { on: own, commandTimeoutMs: 150 })
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  process.kill(own.pid, 'SIGSTOP')
  const wanted = request(caller, 400)
  await t.rejects(ledger.admit(wanted), { code: 'ledger_unavailable', status: 503 })
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

t.test(
  "6 a crash loses nothing: a dead gateway's hold comes back, charged at its last checkpoint",
  async (t) => {
    const leaseMs = 90
    const dying = await open(t, { leaseMs })
    const { link, ledger } = await open(t, { leaseMs })
    await reapingStarted(link)
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 1000)
    const hold = await dying.ledger.admit(request(caller, 400))
    hold.progress.charge = 120
    hold.progress.completion = 9
    await until(
      async () =>
        (await link.client.hget(keys.open(caller.ref), hold.id))?.startsWith('400 120 ') ?? false,
    )
    await dying.ledger.close(0)
    dying.link.drop()
    await until(async () => (await ledger.balance(caller.ref)).reserved === 0)
    t.match(await ledger.balance(caller.ref), { balance: 880 })
    t.match((await ledger.transactions(caller.ref, page)).data[1], {
      type: 'charge',
      amount: -120,
      estimated: true,
      request_id: 'req_1',
    })
    t.same((await ledger.audit(caller.ref)).differences, [])
  },
)

t.test(
  '6 a gateway frozen past its lease opens its hold again for what is left, and pays the difference',
  async (t) => {
    const leaseMs = 90
    const frozen = await open(t, { leaseMs })
    const { link, ledger } = await open(t, { leaseMs })
    await reapingStarted(link)
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 1000)
    const hold = await frozen.ledger.admit(request(caller, 400))
    hold.progress.charge = 120
    const openNow = () => link.client.hget(keys.open(caller.ref), hold.id)
    await until(async () => (await openNow())?.startsWith('400 120 ') ?? false)
    const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * leaseMs)
    pause()
    t.match(await ledger.balance(caller.ref), { balance: 880, reserved: 0 }, 'it was reaped')
    await until(async () => (await openNow())?.startsWith('280 ') ?? false)
    t.equal(hold.amount, 400)
    hold.progress.charge = 170
    await until(async () => (await openNow())?.startsWith('280 170 ') ?? false)
    pause()
    t.match(
      await ledger.balance(caller.ref),
      { balance: 830, reserved: 0 },
      'a second reaping charges the difference',
    )
    t.match(await frozen.ledger.settle(hold, used(150)), { charge: 150, shortfall: 0 })
    t.match(await ledger.balance(caller.ref), { balance: 850, reserved: 0 })
    const { data } = await ledger.transactions(caller.ref, page)
    t.match(
      data.map(({ type, amount }) => [type, amount]),
      [
        ['topup', 1000],
        ['charge', -120],
        ['adjustment', -50],
        ['adjustment', 20],
      ],
    )
    t.match(
      await ledger.usage(caller.ref, {
        from: Date.now() / 1000 - 9,
        to: Date.now() / 1000,
        bucket: 'day',
      }),
      {
        data: [{ requests: 1, cost: 150, completion_tokens: 5, prompt_tokens: 7 }],
      },
    )
    t.same((await ledger.audit(caller.ref)).differences, [])
  },
)

t.test('6 a frozen gateway whose money went elsewhere stops its backend', async (t) => {
  const leaseMs = 90
  const frozen = await open(t, { leaseMs })
  const { link, ledger } = await open(t, { leaseMs })
  await reapingStarted(link)
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 400)
  const hold = await frozen.ledger.admit(request(caller, 400))
  hold.progress.charge = 120
  await until(
    async () =>
      (await link.client.hget(keys.open(caller.ref), hold.id))?.startsWith('400 120 ') ?? false,
  )
  const stopped = new Promise((resolve) => hold.onStop(resolve))
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * leaseMs)
  // In the same tick, before the frozen one's timers.
  await ledger.admit(request(caller, 280))
  t.equal(await stopped, 'insufficient_balance')
})

t.test(
  'a suspended account is refused at once, and its streams stop at the next checkpoint',
  async (t) => {
    const { link, ledger } = await open(t, { leaseMs: 90 })
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 400)
    const hold = await ledger.admit(request(caller, 100))
    const stopped = new Promise((resolve) => hold.onStop(resolve))
    await link.client.hset(keys.account(caller.ref), 'status', 'suspended')
    t.equal(await stopped, 'account_suspended')
    await t.rejects(ledger.admit(request(caller, 100)), { code: 'account_suspended', status: 403 })
  },
)

t.test(
  '7 Redis away: new work is refused at once, a settlement waits on disk and is made once',
  async (t) => {
    const own = await startRedis(t, { args: durable })
    const { link, ledger } = await open(t, { on: own })
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 1000)
    const hold = await ledger.admit(request(caller, 400))
    await own.kill()
    await until(() => !link.up)
    const started = performance.now()
    await t.rejects(ledger.admit(request(caller, 1)), {
      code: 'ledger_unavailable',
      retryAfterMs: 1000,
    })
    await t.rejects(ledger.identify(caller), { code: 'ledger_unavailable' })
    t.ok(performance.now() - started < 100)
    t.match(await ledger.settle(hold, used(150)), { charge: 150, isWaiting: true })
    t.equal(ledger.spooled, 2, 'the top-up is still kept, and the settlement')
    await own.restart()
    await until(() =>
      ledger.balance(caller.ref).then(
        ({ balance }) => balance === 850,
        () => false,
      ),
    )
    t.match(await ledger.balance(caller.ref), { reserved: 0 })
    t.same((await ledger.audit(caller.ref)).differences, [])
  },
)

t.test('7 Redis killed with settlements outstanding: each is charged once', async (t) => {
  const own = await startRedis(t, { args: durable })
  const { link, ledger } = await open(t, { on: own, commandTimeoutMs: 300 })
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 10_000)
  const holds = await Promise.all(
    Array.from({ length: 50 }, () => ledger.admit(request(caller, 100))),
  )
  const settlements = holds.map((hold) => ledger.settle(hold, used(10)))
  await own.kill()
  const states = (await Promise.all(settlements)).map(({ isWaiting }) => isWaiting)
  t.comment(`${states.filter(Boolean).length} of 50 had to wait`)
  await own.restart()
  await until(() =>
    ledger.balance(caller.ref).then(
      ({ balance, reserved }) => balance === 9500 && reserved === 0,
      () => false,
    ),
  )
  t.equal((await ledger.transactions(caller.ref, page)).data.length, 51)
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test(
  '7 Redis away until the process is gone: the next one charges what is in the spool',
  async (t) => {
    const own = await startRedis(t, { args: durable })
    const spoolDir = await tempDir(t)
    const { link, ledger } = await open(t, { on: own, spoolDir })
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 1000)
    const hold = await ledger.admit(request(caller, 400))
    await own.kill()
    await ledger.settle(hold, used(150))
    await ledger.close(0)
    link.drop()
    await own.restart()
    const { readdir, rename } = await import('node:fs/promises')
    const [name = ''] = await readdir(spoolDir)
    // As if its process were gone: this one still runs.
    await rename(
      `${spoolDir}/${name}`,
      `${spoolDir}/${name.replace(`-${process.pid}-`, '-4194305-')}`,
    )
    const next = await open(t, { on: own, spoolDir })
    await until(async () => (await next.ledger.balance(caller.ref)).balance === 850)
    t.equal((await next.ledger.balance(caller.ref)).reserved, 0)
  },
)

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

t.test('while a gateway lives, its holds are renewed', async (t) => {
  const { link, ledger } = await open(t, { leaseMs: 30_000 })
  const caller = await makeAccount(link)
  const hold = await ledger.admit(request(caller, 0))
  const deadline = async () => Number(await link.client.zscore(keys.holds(caller.ref), hold.id))
  const first = await deadline()
  // A new deadline that were no later than now would take 30 s to get there.
  await until(async () => (await deadline()) > first + 500)
})

t.test(
  'a Redis that was just started reaps nobody: its gateways had no chance to renew',
  async (t) => {
    const own = await startRedis(t)
    const { link, ledger } = await open(t, { on: own, leaseMs: 3000 })
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 100)
    const hold = await ledger.admit(request(caller, 40))
    const uptimeS = async () =>
      Number(/uptime_in_seconds:(\d+)/.exec(await link.client.info('server'))?.[1])
    await ledger.close(0)
    const next = await open(t, { on: own, leaseMs: 3000 })
    await link.client.zadd(keys.holds(caller.ref), 1, hold.id)
    await until(async () => {
      const { reserved } = await next.ledger.balance(caller.ref)
      if (reserved === 40) return false
      t.ok((await uptimeS()) >= 3, 'reaped only then')
      return true
    })
  },
)
