// Budgets of accounts and keys: a cap on what may be spent in a window, which no race, no hold and no key gets past.

import t from 'tap'
import type { Test } from 'tap'
import { budgetText } from '../../src/budget.ts'
import { parseHoldRow } from '../../src/ledger/hold-rows.ts'
import type { Ledger } from '../../src/ledger/ledger.ts'
import { releaseOrder, sendOrder } from '../../src/ledger/orders.ts'
import { accountKeys, keys } from '../../src/redis/keys.ts'
import { openWindows, shortWindows } from '../fixtures/borders.ts'
import {
  connectLink,
  makeAccount,
  newHoldId,
  openAdmission,
  openLedger,
  reapingStarted,
  request,
  topUp,
  used,
} from '../fixtures/ledger.ts'
import type { TestAccount } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const server = await startRedis(t)
const monthly = (tokens: number) => budgetText({ tokens, every: 'month' })

interface Budgets {
  readonly account?: string
  readonly key?: string
}

/** An account with 10,000 tokens. */
async function open(t: Test, { account, key }: Budgets, leaseMs?: number) {
  const opened = await openWindows(t, server, {
    leaseMs,
    account: account ? { budget: account } : {},
    key: key ? { budget: key } : {},
  })
  const { link, ledger, caller, ref, setAccount } = opened
  await topUp(ledger, caller, 10_000)
  const usedOf = async (field: string) =>
    Number((await link.client.hget(keys.account(ref), field))?.split(' ')[3] ?? -1)
  const spent = () => usedOf('window')
  const spentOfKey = () => usedOf(`window:key_${ref}:month`)
  const setBudget = (budget: string) => setAccount({ budget })
  return { ...opened, spent, spentOfKey, setBudget }
}

/** A further key of the account. */
async function addKey(
  link: Awaited<ReturnType<typeof connectLink>>,
  caller: TestAccount,
  fields: Readonly<Record<string, string>>,
): Promise<TestAccount> {
  const hmac = `hmac-${fields.id}`
  await link.client.hset(keys.key(caller.ref, hmac), { scopes: 'chat', models: '*', ...fields })
  return { ...caller, hmac }
}

for (const who of ['account', 'key'] as const) {
  t.test(
    `the budget of the ${who}: what is left of it is held, then a refusal says until when`,
    async (t) => {
      const { ledger, caller, spendNow, sound } = await open(t, { [who]: monthly(100) })
      await spendNow(70)
      const hold = await ledger.admit(request(caller, 50, { min: 10 }))
      t.equal(hold.amount, 30)
      await t.rejects(ledger.admit(request(caller, 5)), {
        code: 'budget_exceeded',
        message: new RegExp(`of the ${who} `),
        shortage: { available: 0, needed: 5, owed: 0, renews_at: 8_000_000_000_000 },
      })
      await ledger.settle(hold, used(12))
      const next = await ledger.admit(request(caller, 100, { min: 1 }))
      t.equal(next.amount, 18, 'what was not used came back')
      await t.resolves(ledger.admit(request(caller, 0)), 'what costs nothing is served')
      await sound()
    },
  )
}

t.test('the least of balance and budgets is what a hold can have', async (t) => {
  const { ledger, caller, spent, spentOfKey, sound } = await open(t, {
    account: monthly(300),
    key: monthly(200),
  })
  const hold = await ledger.admit(request(caller, 20_000, { min: 1 }))
  t.equal(hold.amount, 200)
  t.match(await ledger.balance(caller.ref), {
    balance: 10_000,
    available: 100,
    budget: { tokens: 300, every: 'month', used: 200 },
  })
  t.same([await spent(), await spentOfKey()], [200, 200])
  await ledger.settle(hold, used(50))
  t.same([await spent(), await spentOfKey()], [50, 50])
  await sound()
})

t.test(
  'new keys do not get past the budget of the account, nor does a rotated one past its own',
  async (t) => {
    const { link, caller, ref, spendNow, sound } = await open(t, {
      account: monthly(500),
      key: monthly(100),
    })
    await spendNow(100)
    await t.rejects(spendNow(1), { code: 'budget_exceeded' })
    const rotated = await addKey(link, caller, {
      id: 'key_new',
      budget: monthly(100),
      budget_of: `key_${ref}`,
    })
    await t.rejects(spendNow(1, rotated), { code: 'budget_exceeded', message: /of the key/ })
    for (const id of ['key_1', 'key_2', 'key_3'])
      await spendNow(100, await addKey(link, caller, { id, budget: monthly(100) }))
    const free = await addKey(link, caller, { id: 'key_4' })
    await spendNow(100, free)
    await t.rejects(spendNow(1, free), { code: 'budget_exceeded', message: /of the account/ })
    await sound()
  },
)

t.test(
  'a request counts in the window in which it was admitted, also if it ends later',
  async (t) => {
    const { ledger, caller, spendNow, spent, passBorder, sound } = await open(t, {
      account: monthly(100),
    })
    const hold = await ledger.admit(request(caller, 60))
    await passBorder()
    await spendNow(90)
    t.equal(await spent(), 90)
    await ledger.settle(hold, used(10))
    t.equal(await spent(), 90, 'what was not used goes back to the window that has ended')
    await t.rejects(spendNow(11), { code: 'budget_exceeded' })
    await spendNow(10)
    await sound()
  },
)

t.test('what costs more than its hold counts, after the border in the new window', async (t) => {
  const { ledger, caller, spendNow, spent, passBorder, sound } = await open(t, {
    account: monthly(100),
  })
  await ledger.settle(await ledger.admit(request(caller, 60)), used(80))
  t.equal(await spent(), 80)
  const hold = await ledger.admit(request(caller, 20))
  await passBorder()
  await spendNow(1)
  await ledger.settle(hold, used(50))
  t.equal(await spent(), 31)
  await ledger.settle(await ledger.admit(request(caller, 60)), used(80))
  t.equal(await spent(), 111, 'what was used is charged, whatever the budget')
  t.match(await ledger.balance(caller.ref), { available: 0, budget: { used: 111 } })
  await t.rejects(spendNow(1), { code: 'budget_exceeded' })
  await sound()
})

t.test(
  'a hold in slices grows by what its budgets leave, and after a border in the new window',
  async (t) => {
    const { ledger, caller, spendNow, spent, spentOfKey, passBorder, sound } = await open(t, {
      account: monthly(100),
      key: monthly(1000),
    })
    const hold = await ledger.admit(request(caller, 40, { min: 40, isSliced: true }))
    t.ok(await ledger.extend(hold, { amount: 80, least: 40 }))
    t.equal(hold.amount, 80)
    t.notOk(await ledger.extend(hold, { amount: 500, least: 400 }), 'no more is there')
    t.equal(hold.amount, 100)
    t.same([await spent(), await spentOfKey()], [100, 100])
    await passBorder()
    t.ok(await ledger.extend(hold, { amount: 160, least: 60 }))
    t.same([await spent(), await spentOfKey()], [60, 60], 'what was held before counts there')
    await spendNow(30)
    await sound()
    await ledger.settle(hold, used(120))
    t.same([await spent(), await spentOfKey()], [50, 50])
    await sound()
  },
)

t.test('a budget that is taken away and given back goes on in its window', async (t) => {
  const { ledger, caller, spendNow, spent, setBudget, sound } = await open(t, {
    account: monthly(100),
  })
  await spendNow(60)
  const hold = await ledger.admit(request(caller, 10, { min: 10, isSliced: true }))
  await setBudget('')
  await spendNow(500)
  t.ok(await ledger.extend(hold, { amount: 50, least: 40 }))
  await setBudget(monthly(100))
  await t.rejects(spendNow(1), { code: 'budget_exceeded' })
  await setBudget(monthly(120))
  await ledger.settle(hold, used(20))
  t.equal(await spent(), 80)
  await spendNow(40)
  await setBudget(budgetText({ tokens: 10, every: 'day' }))
  await spendNow(10)
  t.equal(await spent(), 10, 'another kind of window begins anew')
  await sound()
})

t.test('a hold of a key whose budget goes by other windows now counts where it did', async (t) => {
  const { ledger, link, caller, ref, spendNow, spentOfKey, sound } = await open(t, {
    key: monthly(100),
  })
  const hold = await ledger.admit(request(caller, 30, { isSliced: true }))
  await link.client.hset(keys.key(ref, caller.hmac), { budget: '50 day' })
  await spendNow(50)
  t.ok(await ledger.extend(hold, { amount: 90, least: 60 }))
  t.equal(await spentOfKey(), 90)
  await sound()
  await ledger.settle(hold, used(70))
  t.equal(await spentOfKey(), 70)
  await t.rejects(spendNow(1), { code: 'budget_exceeded' })
  await sound()
})

t.test('holds from before the budget do not count, and give nothing back to it', async (t) => {
  const { ledger, caller, spendNow, spent, setBudget, sound } = await open(t, {})
  const early = await ledger.admit(request(caller, 60, { isSliced: true }))
  const other = await ledger.admit(request(caller, 60))
  await setBudget(monthly(100))
  await spendNow(50)
  t.ok(await ledger.extend(early, { amount: 100, least: 40 }))
  t.equal(await spent(), 90)
  await ledger.settle(other, used(1))
  await ledger.settle(early, used(70))
  t.equal(await spent(), 60)
  await sound()
})

t.test('reaped and opened again, a hold counts once', async (t) => {
  const { ledger, link, caller, ref, windows, scripts, spent, spentOfKey, sound } = await open(
    t,
    { account: monthly(100), key: monthly(100) },
    90,
  )
  await reapingStarted(link)
  const dying = openAdmission({ scripts, leaseMs: 1, windows })
  const hold = await dying.admit(request(caller, 80))
  await scripts.run('checkpoint', accountKeys(ref), ['1', `${hold.id} 30 7 0 5`])
  await until(async () => (await ledger.balance(ref)).reserved === 0)
  t.same([await spent(), await spentOfKey()], [30, 30])
  const { data } = await ledger.transactions(ref, { limit: 1, order: 'desc' })
  t.notOk(JSON.stringify(data).includes('held'))
  await sound()
  await ledger.settle(await ledger.admit(request(caller, 40)), used(40))
  t.ok(await openAdmission({ scripts, leaseMs: 30_000, windows }).openAgain(hold))
  t.equal(hold.amount, 60, 'with what the budget leaves')
  t.same([await spent(), await spentOfKey()], [100, 100])
  await sound()
  await ledger.settle(hold, used(55))
  t.same([await spent(), await spentOfKey()], [95, 95])
  await sound()
})

/** A hold of both budgets, reaped at its checkpoint of 30 tokens. */
async function openReaped(t: Test) {
  const parts = await open(t, { account: monthly(100), key: monthly(100) }, 90)
  const { ledger, link, caller, ref, windows, scripts, spent, spentOfKey } = parts
  await reapingStarted(link)
  const dying = openAdmission({ scripts, leaseMs: 1, windows })
  const hold = await dying.admit(request(caller, 80))
  const reapAt = async (charge: number) => {
    await scripts.run('checkpoint', accountKeys(ref), ['1', `${hold.id} ${charge} 7 0 5`])
    await until(async () => (await ledger.balance(ref)).reserved === 0)
  }
  await reapAt(30)
  const counted = async () => [await spent(), await spentOfKey()]
  return { ...parts, hold, dying, reapAt, counted }
}

t.test('a correction downwards comes back to the budgets that the charge counted in', async (t) => {
  const { ledger, hold, counted, spendNow, sound } = await openReaped(t)
  await spendNow(70)
  t.same(await counted(), [100, 100])
  await t.rejects(spendNow(1), { code: 'budget_exceeded' })
  await ledger.settle(hold, used(12))
  t.same(await counted(), [82, 82])
  await sound()
  await ledger.settle(hold, used(12))
  t.same(await counted(), [82, 82], 'once')
  await spendNow(18)
  await t.rejects(spendNow(1), { code: 'budget_exceeded' })
  await sound()
})

t.test('of a hold that was reaped twice, all that was counted comes back', async (t) => {
  const { ledger, hold, dying, reapAt, counted, sound } = await openReaped(t)
  t.ok(await dying.openAgain(hold))
  await reapAt(50)
  t.same(await counted(), [50, 50])
  await sound()
  await ledger.settle(hold, used(0))
  t.same(await counted(), [0, 0])
  await sound()
})

t.test('reaped, opened again and settled for less, a hold gives back both', async (t) => {
  const { ledger, hold, scripts, windows, counted, sound } = await openReaped(t)
  t.ok(await openAdmission({ scripts, leaseMs: 30_000, windows }).openAgain(hold))
  t.same(await counted(), [80, 80])
  await ledger.settle(hold, used(12))
  t.same(await counted(), [12, 12])
  await sound()
})

t.test('what comes back after the border is not added to the new window', async (t) => {
  const { ledger, hold, counted, spendNow, passBorder, sound } = await openReaped(t)
  await passBorder()
  await spendNow(40)
  await ledger.settle(hold, used(12))
  t.same(await counted(), [40, 40])
  await sound()
})

t.test('nor is what had counted in an earlier window given back to this one', async (t) => {
  const { ledger, link, caller, ref, scripts, windows, spent, passBorder, spendNow, sound } =
    await open(t, { account: monthly(100) }, 90)
  await reapingStarted(link)
  const dying = openAdmission({ scripts, leaseMs: 30_000, windows })
  const hold = await dying.admit(request(caller, 40, { isSliced: true }))
  await passBorder()
  await spendNow(5)
  t.ok(await ledger.extend(hold, { amount: 80, least: 40 }))
  t.equal(await spent(), 45)
  await scripts.run('checkpoint', accountKeys(ref), ['1', `${hold.id} 50 7 0 5`])
  await until(async () => (await ledger.balance(ref)).reserved === 0)
  t.equal(await spent(), 15, 'ten of the fifty are in this window')
  await ledger.settle(hold, used(20))
  t.equal(await spent(), 5)
  await sound()
})

t.test('a settlement that Redis knows no hold for counts in the window that runs', async (t) => {
  const { caller, ref, scripts, spendNow, spent, spentOfKey, sound } = await open(t, {
    account: monthly(100),
    key: monthly(100),
  })
  await spendNow(10)
  const order = { ...releaseOrder(ref, caller.hmac, newHoldId()), charge: 25, prompt: 7 }
  await sendOrder(scripts, { ...order, keyId: `key_${ref}` })
  await sendOrder(scripts, { ...order, keyId: `key_${ref}` })
  t.same([await spent(), await spentOfKey()], [35, 35])
  await sound()
})

t.test('a lost admission is released from its budget', async (t) => {
  const { ledger, caller, ref, scripts, spent, sound } = await open(t, { account: monthly(100) })
  const hold = await ledger.admit(request(caller, 100))
  await sendOrder(scripts, releaseOrder(ref, caller.hmac, hold.id))
  t.equal(await spent(), 0)
  await sound()
})

t.test('shadow mode notes the budget that would have refused, and counts', async (t) => {
  const { ledger, caller, spent, sound } = await open(t, { account: monthly(100) })
  const shadow = (want: number) => ledger.admit(request(caller, want, { isShadow: true }))
  const first = await shadow(80)
  t.equal(first.fields.wouldRefuse, undefined)
  const second = await shadow(50)
  t.equal(second.fields.wouldRefuse, 'budget_exceeded')
  t.equal(second.amount, 20)
  await ledger.settle(second, used(50))
  await ledger.settle(first, used(80))
  t.equal(await spent(), 130)
  t.match(await ledger.balance(caller.ref), { balance: 9870, available: 0 })
  await sound()
})

/** 200 requests at two ledgers, all at once. Returns what was admitted. */
async function race(ledgers: readonly Ledger[], callers: readonly TestAccount[], each: number) {
  const tries = Array.from({ length: 200 }, async (_, i) => {
    const [ledger, caller] = [ledgers[i % ledgers.length], callers[i % callers.length]]
    if (!ledger || !caller) return 0
    const hold = await ledger.admit(request(caller, each)).catch((error: { code?: string }) => {
      if (error.code !== 'budget_exceeded') throw error
      return undefined
    })
    if (!hold) return 0
    await ledger.settle(hold, used(each - (i % 3)))
    return hold.amount
  })
  return (await Promise.all(tries)).filter((amount) => amount > 0).length
}

t.test('200 requests on a budget for 7, by two gateways and three keys: exactly 7', async (t) => {
  const { link, ledger, caller, windows, spent, sound } = await open(t, { account: monthly(70) })
  const other = await openLedger(t, { link: await connectLink(t, server.socket), windows })
  const more = [
    await addKey(link, caller, { id: 'key_1' }),
    await addKey(link, caller, { id: 'key_2' }),
  ]
  // Nothing comes back, so what fits is known.
  const holds = await Promise.allSettled(
    Array.from({ length: 200 }, (_, i) => {
      const of = [caller, ...more][i % 3] ?? caller
      return (i % 2 ? ledger : other).admit(request(of, 10))
    }),
  )
  t.equal(holds.filter(({ status }) => status === 'fulfilled').length, 7)
  t.equal(await spent(), 70)
  await sound()
})

t.test(
  'racing over the border, with clocks apart, no window has more than its budget',
  async (t) => {
    const lengths = [500, 1500, 4000] as const
    const links = [await connectLink(t, server.socket), await connectLink(t, server.socket)]
    const clocks = [shortWindows(lengths, -2000), shortWindows(lengths, 2000)]
    const ledgers = await Promise.all(
      links.map((link, i) => openLedger(t, { link, windows: clocks[i] })),
    )
    const [link] = links
    const [ledger] = ledgers
    if (!link || !ledger) return t.fail()
    const caller = await makeAccount(link, {
      account: { budget: budgetText({ tokens: 100, every: 'day' }) },
      key: { budget: budgetText({ tokens: 150, every: 'week' }) },
    })
    await topUp(ledger, caller, 1_000_000)
    const begun = Date.now()
    let admitted = 0
    for (let i = 0; i < 12 || Date.now() - begun < 2200; i++)
      admitted += await race(ledgers, [caller], 9)
    const days = Math.floor(Date.now() / 500) - Math.floor(begun / 500) + 1
    const weeks = Math.floor(Date.now() / 1500) - Math.floor(begun / 1500) + 1
    const { spent } = await ledger.balance(caller.ref)
    t.ok(spent <= Math.min(100 * days, 150 * weeks), `${spent} in ${days} days and ${weeks} weeks`)
    t.ok(spent >= 150 && admitted > 0, `${spent} of ${admitted} requests`)
    for (const { learned } of clocks) t.ok(learned > 0, 'it asked Redis')
    t.same((await ledger.audit(caller.ref)).differences, [])
  },
)

t.test('an audit finds a window that says less than was spent or is held', async (t) => {
  const { ledger, link, caller, ref, spendNow } = await open(t, {
    account: monthly(100),
    key: monthly(90),
  })
  await spendNow(30)
  await ledger.admit(request(caller, 20))
  const row = keys.account(ref)
  for (const field of ['window', `window:key_${ref}:month`]) {
    const text = (await link.client.hget(row, field)) ?? ''
    await link.client.hset(row, { [field]: text.replace(/50$/, '49') })
  }
  const { differences } = await ledger.audit(ref)
  const sorted = differences.toSorted((a, b) => (a.what < b.what ? -1 : 1))
  t.match(sorted, [
    { what: `budget of key_${ref}:month`, expected: 50, found: 49 },
    { what: 'budget of the account', expected: 50, found: 49 },
  ])
})

t.test('a text of a client cannot say what its hold counts in', async (t) => {
  const { ledger, link, caller, ref, spent, sound } = await open(t, { account: monthly(100) })
  const forged = '","held":"1 0 1 0 key_x"'
  const meta = { requestId: 'req_1', sessionId: forged, messageId: forged }
  const hold = await ledger.admit(request(caller, 60, { meta }))
  const row = (await link.client.hget(keys.holdRows(ref), hold.id)) ?? ''
  t.match(parseHoldRow(row).countedIn, [{ field: 'window', tokens: 60 }])
  await ledger.settle(hold, used(10))
  t.equal(await spent(), 10)
  await sound()
})

t.test(
  'a request without budgets, allowance and limits has 18 commands in Redis, and no field of them',
  async (t) => {
    const { ledger, link, caller, ref } = await open(t, {})
    const calls = async () => {
      const stats = await link.client.info('commandstats')
      const counts = [...stats.matchAll(/cmdstat_(\w+):calls=(\d+)/g)]
      return counts
        .filter(([, name]) => name !== 'info' && name !== 'ping')
        .reduce((sum, [, , count]) => sum + Number(count), 0)
    }
    await ledger.settle(await ledger.admit(request(caller, 10)), used(10))
    const before = await calls()
    await ledger.settle(await ledger.admit(request(caller, 10)), used(10))
    t.equal((await calls()) - before, 18)
    const fields = Object.keys(await link.client.hgetall(keys.account(ref)))
    t.same(
      fields.filter((field) => /window|budget|allowance/.test(field)),
      [],
    )
  },
)
