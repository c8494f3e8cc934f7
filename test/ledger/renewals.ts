// Allowances: renewed once in a window, spent before the rest of the balance, and never worth more than they say.

import t from 'tap'
import type { Test } from 'tap'
import type { Plan } from '../../src/config/config.ts'
import { createArchive } from '../../src/ledger/archive.ts'
import { audit } from '../../src/ledger/audit.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import type { LedgerScripts } from '../../src/ledger/library.ts'
import { hourOfHold } from '../../src/ledger/hold-rows.ts'
import { releaseOrder, sendOrder } from '../../src/ledger/orders.ts'
import { accountKeys, keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import { diskStore } from '../../src/store/disk.ts'
import { openWindows, shortWindows } from '../fixtures/borders.ts'
import {
  auditPlace,
  connectLink,
  deadlineOf,
  makeAccount,
  newHoldId,
  openAdmission,
  openLedger,
  reapingStarted,
  request,
  topUp,
  unlimited,
  used,
} from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

const server = await startRedis(t)
const page = { limit: 100, order: 'asc' } as const

type Allowance = NonNullable<Plan['allowance']>

const monthly = (tokens: number, more: Partial<Allowance> = {}): Allowance => ({
  tokens,
  every: 'month',
  rollover: false,
  ...more,
})

/** An account on a plan with this allowance. */
async function open(t: Test, allowance: Allowance, leaseMs?: number) {
  const opened = await openWindows(t, server, { allowance, leaseMs })
  const { ledger, ref, setAccount } = opened
  const sums = async () => {
    const { balance, reserved, available, owed, allowance } = await ledger.balance(ref)
    return { balance, reserved, available, owed, left: allowance?.left }
  }
  const entries = async () =>
    (await ledger.transactions(ref, page)).data.map(({ type, amount }) => `${type} ${amount}`)
  const setPlan = (plan: string) => setAccount({ plan })
  return { ...opened, sums, entries, setPlan }
}

t.test(
  'a window begins with the allowance, and what is left of the last one is taken',
  async (t) => {
    const { spendNow, sums, entries, passBorder, sound } = await open(t, monthly(100))
    await spendNow(30)
    t.match(await sums(), { balance: 70, available: 70, left: 70 })
    await passBorder()
    await spendNow(40)
    t.match(await sums(), { balance: 60, left: 60 })
    t.same(await entries(), ['allowance 100', 'charge -30', 'allowance 30', 'charge -40'])
    await passBorder()
    t.match(await sums(), { balance: 100, left: 100 }, 'who looks sees the new window')
    await passBorder()
    await spendNow(1)
    t.equal((await entries()).length, 6, 'nothing was left out, and nothing is written for nothing')
    await sound()
  },
)

t.test('the allowance is spent first, and top-ups outlive its windows', async (t) => {
  const { ledger, caller, spendNow, sums, passBorder, sound } = await open(t, monthly(100))
  await topUp(ledger, caller, 50)
  await spendNow(120)
  t.match(await sums(), { balance: 30, left: 0 })
  await passBorder()
  t.match(await sums(), { balance: 130, left: 100 })
  await passBorder()
  t.match(await sums(), { balance: 130, left: 100 })
  await sound()
})

t.test('with rollover, what is left stays', async (t) => {
  const opened = await open(t, monthly(100, { rollover: true }))
  const { spendNow, sums, passBorder, sound } = opened
  await spendNow(30)
  await passBorder()
  await spendNow(10)
  t.match(await sums(), { balance: 160, left: 160 })
  await sound()
})

t.test('an account that slept for long gets one allowance, whoever wakes it', async (t) => {
  const { ledger, caller, spendNow, sums, entries, passBorder } = await open(
    t,
    monthly(100, { rollover: true }),
  )
  await spendNow(100)
  await passBorder()
  await passBorder()
  await passBorder()
  await Promise.all(Array.from({ length: 20 }, () => ledger.admit(request(caller, 1))))
  t.match(await sums(), { balance: 100, reserved: 20, left: 100 })
  t.equal((await entries()).filter((one) => one === 'allowance 100').length, 2)
})

t.test('nothing of the old window is added to the new one by a hold that straddles', async (t) => {
  const { ledger, caller, sums, entries, passBorder, sound } = await open(t, monthly(100))
  const hold = await ledger.admit(request(caller, 100))
  await passBorder()
  t.match(await sums(), { balance: 100, reserved: 100, available: 0, left: 100 })
  await ledger.settle(hold, used(10))
  t.match(await sums(), { balance: 90, available: 90, left: 90 })
  t.same(await entries(), ['allowance 100', 'charge -10'])
  await sound()
})

t.test('what is owed is paid from a new allowance first', async (t) => {
  const { ledger, caller, sums, entries, passBorder, sound } = await open(t, monthly(100))
  const hold = await ledger.admit(request(caller, 100))
  await ledger.settle(hold, used(130))
  t.match(await sums(), { balance: 0, owed: 30 })
  await t.rejects(ledger.admit(request(caller, 1)), { code: 'insufficient_balance' })
  await passBorder()
  await ledger.admit(request(caller, 70))
  t.match(await sums(), { balance: 70, available: 0, owed: 0, left: 70 })
  t.same(await entries(), ['allowance 100', 'charge -100', 'allowance 100', 'repayment -30'])
  await sound()
})

t.test('another plan renews nothing twice, and gives back no more than was left', async (t) => {
  const { plans, setPlan, spendNow, sums, passBorder, sound } = await open(t, monthly(100))
  plans.set('big', { ...unlimited, allowance: monthly(1000) })
  plans.set('none', unlimited)
  await spendNow(60)
  await setPlan('big')
  t.match(await sums(), { balance: 940, left: 940 }, 'what was used counts')
  await setPlan('default')
  t.match(await sums(), { balance: 40, left: 40 })
  for (const name of ['none', 'default', 'none', 'big', 'default']) {
    await setPlan(name)
    await sums()
  }
  t.match(await sums(), { balance: 40, left: 40 }, 'as often as one likes')
  await setPlan('none')
  t.match(await sums(), { balance: 0 })
  await passBorder()
  t.match(await sums(), { balance: 0 })
  await setPlan('big')
  t.match(await sums(), { balance: 1000, left: 1000 })
  await sound()
})

t.test('a plan that gives less from its next window on, or nothing', async (t) => {
  const { plans, spendNow, sums, passBorder, sound } = await open(t, monthly(100))
  await spendNow(10)
  plans.set('default', { ...unlimited, allowance: monthly(50) })
  await spendNow(10)
  t.match(await sums(), { balance: 80, left: 80 }, 'the window goes on as it began')
  await passBorder()
  t.match(await sums(), { balance: 50, left: 50 })
  plans.set('default', unlimited)
  t.match(await sums(), { balance: 50, left: 50 })
  await passBorder()
  t.match(await sums(), { balance: 0, available: 0 })
  await sound()
})

t.test('what open holds keep of a lost allowance is taken when they give it back', async (t) => {
  const { ledger, caller, plans, sums, passBorder, sound } = await open(t, monthly(100))
  await topUp(ledger, caller, 5)
  const hold = await ledger.admit(request(caller, 80))
  plans.set('default', unlimited)
  await passBorder()
  t.match(await sums(), { balance: 80, reserved: 80, available: 0 })
  await ledger.settle(hold, used(30))
  t.match(await sums(), { balance: 5, available: 5 })
  await sound()
})

t.test('the same on another plan, in the middle of a window', async (t) => {
  const { ledger, caller, plans, setPlan, sums, sound } = await open(t, monthly(100))
  plans.set('none', unlimited)
  const hold = await ledger.admit(request(caller, 80))
  await setPlan('none')
  t.match(await sums(), { balance: 80, reserved: 80, available: 0 })
  await ledger.settle(hold, used(30))
  t.match(await sums(), { balance: 0, available: 0 })
  await sound()
})

/** An admission of a gateway that notes its flights. `after`: what happens after each of them, before the next one. */
function noting(
  { link, windows, plans }: Pick<Awaited<ReturnType<typeof open>>, 'link' | 'windows' | 'plans'>,
  after = async (_script: string): Promise<unknown> => undefined,
) {
  const flights: string[] = []
  const scripts = createScripts({ link, library: ledgerScripts })
  const run: LedgerScripts['run'] = async (name, ...rest) => {
    flights.push(name)
    const reply = await scripts.run(name, ...rest)
    await after(name)
    return reply
  }
  const parts = { scripts: { ...scripts, run }, leaseMs: 30_000, windows, plans: () => plans }
  return { flights, admission: openAdmission(parts) }
}

t.test('a renewal takes three flights, and the next request one', async (t) => {
  const opened = await open(t, monthly(100))
  const { admission, flights } = noting(opened)
  await admission.admit(request(opened.caller, 10))
  t.same(flights.splice(0), ['admit', 'renew', 'admit'])
  await admission.admit(request(opened.caller, 10))
  await admission.look(opened.ref)
  t.same(flights.splice(0), ['admit', 'identify'])
  await opened.passBorder()
  await admission.look(opened.ref)
  t.same(flights, ['identify', 'renew', 'identify'])
})

t.test('a plan that changes between the renewal and the next call is renewed, too', async (t) => {
  const opened = await open(t, monthly(100))
  const { plans, caller, setPlan, sums, sound } = opened
  plans.set('big', { ...unlimited, allowance: monthly(1000) })
  let renewals = 0
  const { admission, flights } = noting(opened, async (script) => {
    if (script === 'renew' && ++renewals === 1) await setPlan('big')
  })
  t.equal((await admission.admit(request(caller, 500))).amount, 500)
  t.same(flights, ['admit', 'renew', 'admit', 'admit', 'renew', 'admit'])
  t.match(await sums(), { balance: 1000, reserved: 500 })
  await sound()
})

t.test('so is one that changes before the renewal', async (t) => {
  const opened = await open(t, monthly(100))
  const { plans, caller, setPlan, sums, sound } = opened
  plans.set('big', { ...unlimited, allowance: monthly(1000) })
  let admissions = 0
  const { admission, flights } = noting(opened, async (script) => {
    if (script === 'admit' && ++admissions === 1) await setPlan('big')
  })
  t.equal((await admission.admit(request(caller, 500))).amount, 500)
  t.same(flights, ['admit', 'renew', 'admit', 'renew', 'admit'])
  t.match(await sums(), { balance: 1000, reserved: 500 })
  await sound()
})

t.test('an account that is suspended before the renewal is not renewed', async (t) => {
  const opened = await open(t, monthly(100))
  const { admission, flights } = noting(opened, async (script) => {
    if (script === 'admit') await opened.setAccount({ status: 'suspended' })
  })
  const refused = { code: 'account_suspended' }
  await t.rejects(admission.admit(request(opened.caller, 500)), refused)
  t.same(flights, ['admit', 'renew', 'admit'])
  t.same(await opened.entries(), [])
  const row = keys.account(opened.ref)
  t.equal(await opened.link.client.hget(row, 'allowance'), null)
})

t.test('an account that is gone before the renewal gets no row', async (t) => {
  const { scripts, link } = await open(t, monthly(100))
  const offer = '100 month 0 0 9 0 9 0 9'
  t.match(await scripts.run('renew', accountKeys('gone'), ['default', offer]), { word: 'ok' })
  t.equal(await link.client.exists(keys.account('gone')), 0)
})

t.test('a lost allowance that is held makes no request slower until it is free', async (t) => {
  const opened = await open(t, monthly(100))
  const { ledger, caller, ref, plans, setPlan, sums, sound } = opened
  plans.set('none', unlimited)
  const hold = await ledger.admit(request(caller, 60))
  const other = await ledger.admit(request(caller, 40))
  await setPlan('none')
  const { admission, flights } = noting(opened)
  await admission.look(ref)
  // The first gateway's guess of the plan is wrong once.
  t.same(flights.splice(0), ['identify', 'identify'])
  await admission.admit(request(caller, 0))
  t.same(flights.splice(0), ['admit'])
  await ledger.settle(hold, used(10))
  await admission.admit(request(caller, 0))
  t.same(flights.splice(0), ['admit', 'renew', 'admit'])
  t.match(await sums(), { balance: 40, available: 0 })
  await admission.admit(request(caller, 0))
  t.same(flights.splice(0), ['admit'])
  await ledger.settle(other, used(10))
  t.match(await sums(), { balance: 0, left: undefined })
  await sound()
})

for (const [left, asked] of [
  [30, 31],
  [30, 30],
  [0, 1],
] as const) {
  t.test(
    `of what is free after the renewal, ${left} are granted, if ${asked} are asked for`,
    async (t) => {
      const opened = await open(t, monthly(100))
      const { ledger, caller, plans, setPlan, sums, sound } = opened
      plans.set('less', { ...unlimited, ...(left > 0 && { allowance: monthly(left) }) })
      const hold = await ledger.admit(request(caller, 60))
      await setPlan('less')
      const { admission, flights } = noting(opened, async (script) => {
        if (script === 'renew' && !hold.settlement) await ledger.settle(hold, used(0))
      })
      const admitted = admission.admit(request(caller, asked))
      if (asked > left) await t.rejects(admitted, { code: 'insufficient_balance' })
      else t.equal((await admitted).amount, left)
      t.same(flights, ['admit', 'admit', 'renew', 'admit'])
      t.match(await sums(), { balance: left, reserved: asked > left ? 0 : left })
      await sound()
    },
  )
}

t.test('the same with a plan that gives less, and then one that gives more', async (t) => {
  const opened = await open(t, monthly(100))
  const { ledger, caller, ref, plans, setPlan, sums, sound } = opened
  plans.set('small', { ...unlimited, allowance: monthly(20) })
  plans.set('big', { ...unlimited, allowance: monthly(1000) })
  await ledger.admit(request(caller, 100))
  await setPlan('small')
  const { admission, flights } = noting(opened)
  await admission.look(ref)
  t.same(flights.splice(0), ['identify', 'identify', 'renew', 'identify'])
  await admission.admit(request(caller, 0))
  t.same(flights.splice(0), ['admit'], 'nothing can be taken now')
  t.match(await sums(), { balance: 100, available: 0 })
  await setPlan('big')
  await admission.admit(request(caller, 900))
  t.same(flights, ['admit', 'admit', 'renew', 'admit'], 'but something is given')
  t.match(await sums(), { balance: 1000, available: 0, left: 1000 })
  await sound()
})

t.test('a suspended account is renewed when it is resumed, once', async (t) => {
  const { ledger, caller, setAccount, spendNow, sums, entries, passBorder } = await open(
    t,
    monthly(100, { rollover: true }),
  )
  await spendNow(100)
  await setAccount({ status: 'suspended' })
  for (let i = 0; i < 3; i++) {
    await passBorder()
    await t.rejects(ledger.admit(request(caller, 1)), { code: 'account_suspended' })
    t.match(await sums(), { balance: 0 })
  }
  await setAccount({ status: 'active' })
  await spendNow(1)
  t.match(await sums(), { balance: 99 })
  t.same(await entries(), ['allowance 100', 'charge -100', 'allowance 100', 'charge -1'])
})

t.test('a refusal because of a limit renews, too, and a wrong key does not', async (t) => {
  const { ledger, link, caller, ref } = await open(t, monthly(100))
  await t.rejects(ledger.admit(request({ ...caller, hmac: 'other' }, 1)), {
    code: 'invalid_api_key',
  })
  t.equal(await link.client.hget(keys.account(ref), 'allowance'), null)
  await t.rejects(ledger.admit(request(caller, 1, { scope: 'other' })), {
    code: 'insufficient_scope',
  })
  t.equal(await link.client.hget(keys.account(ref), 'allowance'), null)
  await t.rejects(ledger.admit(request(caller, 101)), {
    code: 'insufficient_balance',
    shortage: { available: 100, needed: 101, owed: 0 },
  })
  t.match((await ledger.balance(ref)).balance, 100)
})

t.test('reaped after the border, a hold is paid by the window that it was made in', async (t) => {
  const opened = await open(t, monthly(100), 90)
  const { ledger, link, scripts, caller, ref, windows, plans } = opened
  const { sums, entries, passBorder, sound } = opened
  await reapingStarted(link)
  // Nobody renews its lease.
  const dying = openAdmission({ scripts, leaseMs: 1, windows, plans: () => plans })
  const hold = await dying.admit(request(caller, 100))
  await scripts.run('checkpoint', accountKeys(ref), ['1', `${hold.id} 40 7 0 5`])
  const deadline = await deadlineOf(link, ref, hold.id)
  await until(() => Date.now() > deadline + 1)
  await passBorder()
  await until(async () => (await ledger.balance(ref)).reserved === 0)
  t.match(await sums(), { balance: 100, left: 100 })
  t.same(await entries(), ['allowance 100', 'charge -40', 'allowance 40'])
  await sound()
})

t.test('an adjustment takes from the rest first, and then from the allowance', async (t) => {
  const { ledger, caller, ref, sums, passBorder, sound } = await open(t, monthly(100))
  await topUp(ledger, caller, 50)
  const adjust = (amount: number) =>
    ledger.credit({ ref, idempotencyId: newHoldId(), amount, type: 'adjustment' })
  await adjust(-20)
  t.match(await sums(), { balance: 130, left: 100 })
  await adjust(-70)
  t.match(await sums(), { balance: 60, left: 60 })
  t.match(await ledger.transactions(ref, { limit: 1, order: 'desc' }), {
    data: [{ type: 'adjustment', amount: -70, balance_after: 60, allowance: 40 }],
  })
  await adjust(500)
  t.match(await sums(), { balance: 560, left: 60 })
  await passBorder()
  t.match(await sums(), { balance: 600, left: 100 })
  await sound()
})

t.test(
  'what a correction gives back is no longer spent, and does not outlive its window',
  async (t) => {
    const opened = await open(t, monthly(100))
    const { ledger, link, scripts, caller, ref, sums, passBorder, sound } = opened
    const id = newHoldId()
    await ledger.settle(await ledger.admit(request(caller, 60)), used(60))
    // As if that had been a reaping.
    await link.client.hset(keys.settled(ref, hourOfHold(id)), id, 'r 60 1 0 1')
    const order = { ...releaseOrder(ref, caller.hmac, id), charge: 20 }
    await sendOrder(scripts, order)
    t.match(await sums(), { balance: 80, left: 80 })
    await passBorder()
    t.match(await sums(), { balance: 100, left: 100 })
    await sound()
  },
)

t.test('a clock that is behind or ahead asks Redis, and never renews early or twice', async (t) => {
  const link = await connectLink(t, server.socket)
  const lengths = [400, 1000, 2500] as const
  const caller = await makeAccount(link)
  const plans = () =>
    new Map([['default', { ...unlimited, allowance: monthly(10, { every: 'day' }) }]])
  const clocks = [shortWindows(lengths, -2000), shortWindows(lengths, 2000)]
  const ledgers = await Promise.all(
    clocks.map((windows) => openLedger(t, { link, windows, plans })),
  )
  const begun = Date.now()
  const ends = begun + 2500
  let paid = 0
  const spendAll = async (ledger: (typeof ledgers)[number]) => {
    while (Date.now() < ends) {
      const hold = await ledger.admit(request(caller, 1)).catch(() => undefined)
      if (!hold) continue
      await ledger.settle(hold, used(1))
      paid++
    }
  }
  await Promise.all(ledgers.flatMap((ledger) => Array.from({ length: 4 }, () => spendAll(ledger))))
  const windows = Math.floor(Date.now() / 400) - Math.floor(begun / 400) + 1
  t.ok(paid <= 10 * windows, `${paid} paid in ${windows} windows of 10`)
  t.ok(paid >= 10 * 5, `${paid} paid`)
  for (const { learned } of clocks) t.ok(learned > 0, 'it asked Redis')
  t.same((await ledgers[0]?.audit(caller.ref))?.differences, [])
})

t.test('a time zone that changes does not renew a window that has begun', async (t) => {
  const link = await connectLink(t, server.socket)
  const hourMs = 3_600_000
  const now = Date.now()
  let text = [now - hourMs, now + hourMs, now - hourMs, now + hourMs, now - hourMs, now + hourMs]
  const windows = { text: '', learn: () => t.fail('these are the windows of now') }
  const set = () => void (windows.text = text.join(' '))
  set()
  const plans = () => new Map([['default', { ...unlimited, allowance: monthly(10) }]])
  const ledger = await openLedger(t, { link, windows, plans })
  const caller = await makeAccount(link)
  await ledger.settle(await ledger.admit(request(caller, 10)), used(10))
  const account = keys.account(caller.ref)
  // The window ends, and that of the new zone has begun before this.
  await link.client.hset(account, { allowance: `0 10 ${now - 1000} default` })
  text = [0, now + 2 * hourMs, 0, now + 2 * hourMs, now - 2000, now + 2 * hourMs]
  set()
  await t.rejects(ledger.admit(request(caller, 1)), { code: 'insufficient_balance' })
  t.equal(await link.client.hget(account, 'allowance'), `0 10 ${now + 2 * hourMs} default`)
})

t.test('an old gateway that knows no allowance takes from the balance, and no more', async (t) => {
  const { link, ref, ledger, caller, sums, passBorder, sound } = await open(t, monthly(100))
  await sums()
  // What its settle.lua does: a charge that says nothing of the allowance.
  const row = keys.account(ref)
  await link.client.hincrby(row, 'spent', 80)
  const entry = { type: 'charge', amount: '-80', balance: '20', meta: '{}' }
  await link.client.xadd(keys.journal(ref), '*', ...Object.entries(entry).flat())
  t.match(await sums(), { balance: 20, left: 20 })
  await sound()
  await topUp(ledger, caller, 7)
  t.match(await sums(), { balance: 27, left: 20 }, 'a top-up is no part of the allowance')
  await passBorder()
  t.match(await sums(), { balance: 107, left: 100 })
  await link.client.hincrby(row, 'spent', 100)
  const second = { ...entry, amount: '-100', balance: '7' }
  await link.client.xadd(keys.journal(ref), '*', ...Object.entries(second).flat())
  await passBorder()
  t.match(await sums(), { balance: 100, left: 100 }, 'the new window is whole')
  await sound()
})

t.test('the archive keeps what allowances gave and charges took', async (t) => {
  const { link, scripts, ref, spendNow, passBorder } = await open(t, monthly(100))
  await spendNow(30)
  await passBorder()
  await spendNow(5)
  const store = diskStore(await tempDir(t))
  const archive = createArchive({ redis: link.client, scripts, store })
  await archive.archive(ref, Date.now() + 1000)
  t.equal(await link.client.xlen(keys.journal(ref)), 0)
  t.equal(await link.client.hget(keys.account(ref), 'archived_allowance'), '95')
  const place = { ...auditPlace(link), archive }
  t.same((await audit(place, { ref })).differences, [])
})

t.test(
  'an account that has only an allowance can be deleted, and its books are closed',
  async (t) => {
    const { ledger, link, caller, ref, spendNow, sound } = await open(t, monthly(100))
    await spendNow(30)
    await topUp(ledger, caller, 5)
    await t.rejects(ledger.closing.close(ref, false), { code: 'account_not_empty' })
    await ledger.credit({ ref, idempotencyId: newHoldId(), amount: -5, type: 'adjustment' })
    await ledger.closing.close(ref, false)
    t.equal(await ledger.closing.writeOff(ref), 0)
    t.match(await link.client.hget(keys.account(ref), 'allowance'), /^0 /)
    t.match(await ledger.transactions(ref, { limit: 1, order: 'desc' }), {
      data: [{ type: 'adjustment', amount: -70, balance_after: 0, allowance: 70 }],
    })
    await sound()
  },
)

t.test('an audit finds an allowance that says more than was given', async (t) => {
  const { link, ref, ledger, spendNow } = await open(t, monthly(100))
  await spendNow(30)
  const row = keys.account(ref)
  const text = (await link.client.hget(row, 'allowance')) ?? ''
  await link.client.hset(row, { allowance: text.replace('70 ', '71 ') })
  const { differences } = await ledger.audit(ref)
  t.match(differences, [{ what: 'allowance', expected: 70, found: 71 }])
})
