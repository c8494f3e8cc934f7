// Shadow mode in the ledger: limits and money refuse nobody, what cannot be paid is waived, and everything adds up.

import t from 'tap'
import type { Test } from 'tap'
import type { Plan } from '../../src/config/config.ts'
import { createArchive } from '../../src/ledger/archive.ts'
import { audit } from '../../src/ledger/audit.ts'
import { hourOfHold } from '../../src/ledger/hold-rows.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { sendOrder, settleOrder } from '../../src/ledger/orders.ts'
import { keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import { diskStore } from '../../src/store/disk.ts'
import {
  auditPlace,
  connectLink,
  makeAccount,
  moveLeases,
  openAdmission,
  openFor,
  openLedger,
  reapingStarted,
  request,
  spend,
  topUp,
  unlimited,
  untilRow,
  usageList,
  used,
} from '../fixtures/ledger.ts'
import type { TestAccount } from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'
import { seeded } from '../fixtures/random.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'
import { withinOneMinute } from '../fixtures/windows.ts'

const server = await startRedis(t)

const isShadow = true
const page = { limit: 100, order: 'asc' } as const

/** A request in shadow mode for so many tokens. */
const shadow = (caller: TestAccount, want: number, more = {}) =>
  request(caller, want, { isShadow, ...more })

/** With a short lease, the ledger reaps as soon as Redis has run for a second. */
async function open(t: Test, tokens: number, leaseMs = 30_000) {
  const opened = await openFor(t, tokens, { on: server, leaseMs })
  const { ledger, ref } = opened
  const entries = async () =>
    (await ledger.transactions(ref, page)).data.map(({ type, amount, owed, waived }) => ({
      type,
      amount,
      owed,
      waived,
    }))
  const usage = async () => {
    const [from, to] = [Date.now() / 1000 - 99, Date.now() / 1000]
    return (await usageList(ledger, ref, { from, to, bucket: 'day' })).data
  }
  const differences = async () => (await ledger.audit(ref)).differences
  return { ...opened, entries, usage, differences }
}

/** With limits of the plan, or of the key. */
async function limited(t: Test, plan: Partial<Plan>, key: object = {}) {
  const link = await connectLink(t, server.socket)
  const plans = () => new Map([['default', { ...unlimited, ...plan }]])
  const ledger = await openLedger(t, { link, plans })
  const caller = await makeAccount(link, { key })
  await topUp(ledger, caller, 1_000_000)
  const admit = (more = {}) => ledger.admit(shadow(caller, 1, more))
  const counted = () => link.client.hmget(keys.account(caller.ref), 'requests', 'tokens')
  const ofKey = () => link.client.hgetall(keys.key(caller.ref, caller.hmac))
  return { link, ledger, caller, admit, counted, ofKey }
}

t.test('nobody is refused for money: a hold has what is available, if only 0', async (t) => {
  const { ledger, caller, sums, differences } = await open(t, 100)
  const first = await ledger.admit(shadow(caller, 60))
  const second = await ledger.admit(shadow(caller, 60, { min: 10 }))
  const third = await ledger.admit(shadow(caller, 60))
  const fourth = await ledger.admit(shadow(caller, 60, { isSliced: true }))
  const holds = [first, second, third, fourth]
  t.same(pick(holds, 'amount'), [60, 40, 0, 0])
  const codes = holds.map(({ fields }) => fields.wouldRefuse)
  t.same(codes, [undefined, undefined, 'insufficient_balance', 'insufficient_balance'])
  t.same(await sums(), { balance: 100, reserved: 100, available: 0, owed: 0 })
  t.same(await differences(), [])
})

t.test('200 at once on a balance for 7: all are admitted, 7 hold, nothing is owed', async (t) => {
  const { ledger, caller, sums, usage, differences } = await open(t, 70)
  const holds = await Promise.all(
    Array.from({ length: 200 }, () => ledger.admit(shadow(caller, 10))),
  )
  t.equal(holds.filter(({ amount }) => amount === 10).length, 7)
  t.equal(holds.filter(({ fields }) => fields.wouldRefuse).length, 193)
  await Promise.all(holds.map((hold) => ledger.settle(hold, used(10))))
  t.same(await sums(), { balance: 0, reserved: 0, available: 0, owed: 0 })
  t.match(await usage(), [{ requests: 200, cost: 2000, waived: 1930 }])
  t.same(await differences(), [])
})

t.test('what cannot be paid is waived: paid and waived are what was used', async (t) => {
  const { ledger, caller, sums, entries, usage, differences, ref } = await open(t, 30)
  const hold = await ledger.admit(shadow(caller, 100))
  t.match(await ledger.settle(hold, used(100)), { charge: 100, owed: 0, waived: 70 })
  t.same(await sums(), { balance: 0, reserved: 0, available: 0, owed: 0 })
  t.match(await ledger.settle(await ledger.admit(shadow(caller, 9)), used(9)), { charge: 9 })
  t.same(await entries(), [
    { type: 'topup', amount: 30, owed: undefined, waived: undefined },
    { type: 'charge', amount: -30, owed: undefined, waived: 70 },
    { type: 'charge', amount: 0, owed: undefined, waived: 9 },
  ])
  t.match(await usage(), [{ requests: 2, cost: 109, waived: 79 }])
  t.same(await differences(), [])
  await topUp(ledger, caller, 50)
  t.match(await sums(), { balance: 50, available: 50 }, 'nothing is due from before')
  const enforced = await ledger.admit(request(caller, 50))
  await ledger.settle(enforced, used(60))
  t.match(await sums(), { balance: 0, owed: 10 }, 'whoever enforces is owed the rest')
  t.match(await usage(), [{ cost: 169, waived: 79 }])
  t.same((await ledger.audit(ref)).differences, [])
})

t.test('who can pay is charged as ever, and nothing is noted', async (t) => {
  const { ledger, link, caller, sums, entries, usage, ref } = await open(t, 1000)
  const hold = await ledger.admit(shadow(caller, 100))
  t.equal(hold.fields.wouldRefuse, undefined)
  await ledger.settle(hold, used(120))
  t.match(await sums(), { balance: 880, owed: 0 })
  t.match((await entries())[1], { type: 'charge', amount: -120, waived: undefined })
  t.notOk((await usage()).some((row) => 'waived' in row))
  t.equal(await link.client.hget(keys.account(ref), 'waived'), null)
})

t.test('a debt from before stays a debt, and refuses nobody', async (t) => {
  const { ledger, caller, sums, differences } = await open(t, 10)
  await ledger.settle(await ledger.admit(request(caller, 10)), used(25))
  t.match(await sums(), { balance: 0, owed: 15 })
  await t.rejects(ledger.admit(request(caller, 1)), { code: 'insufficient_balance' })
  const hold = await ledger.admit(shadow(caller, 5))
  t.equal(hold.amount, 0)
  await ledger.settle(hold, used(5))
  t.match(await sums(), { balance: 0, owed: 15 })
  await topUp(ledger, caller, 20)
  t.match(await sums(), { balance: 5, owed: 0 })
  t.same(await differences(), [])
})

for (const [side, plan, key] of [
  ['the account', { requestsPerMinute: 2, tokensPerMinute: 100 }, {}],
  ['the key', {}, { rpm: 2, tpm: 100 }],
] as const) {
  t.test(`a minute's limits of ${side} refuse as without shadow mode, only nobody`, async (t) => {
    const { seen, ends } = await withinOneMinute(async () => {
      const { ledger, admit, counted, ofKey } = await limited(t, plan, key)
      const holds = [
        await admit(),
        // More tokens than the minute has left, and than it has at all.
        await admit({ promptTokens: 80 }),
        await admit({ promptTokens: 200 }),
        await admit(),
        await admit(),
      ]
      const seen = holds.map(({ fields: { wouldRefuse, limits } }) => ({
        wouldRefuse,
        left: [limits.requests?.remaining, limits.tokens?.remaining],
      }))
      const before = [await counted(), (await ofKey()).tokens]
      for (const hold of holds.slice(1, 3)) await ledger.settle(hold, used(3))
      return { seen, ends: [before, [await counted(), (await ofKey()).tokens]] }
    })
    t.same(seen, [
      { wouldRefuse: undefined, left: [1, 70] },
      { wouldRefuse: 'rate_limit_exceeded', left: [1, 70] },
      { wouldRefuse: 'invalid_parameter', left: [1, 70] },
      { wouldRefuse: undefined, left: [0, 40] },
      { wouldRefuse: 'rate_limit_exceeded', left: [0, 40] },
    ])
    t.same(ends[1], ends[0], 'what was not counted is not corrected either')
    t.same(ends[0], [['2', '60'], side === 'the key' ? '60' : undefined])
  })
}

t.test('what is noted is what an enforcing gateway refuses of the same requests', async (t) => {
  const { refused, noted } = await withinOneMinute(async () => {
    const below = seeded(7)
    const { link, ledger, caller } = await limited(t, {
      requestsPerMinute: 40,
      tokensPerMinute: 900,
    })
    const twin = await makeAccount(link)
    await topUp(ledger, twin, 1_000_000)
    const refused: (string | undefined)[] = []
    const noted: (string | undefined)[] = []
    for (let i = 0; i < 120; i++) {
      const tokens = { promptTokens: below(90), outputTokens: below(60) }
      const more = below(40) === 0 ? { promptTokens: 1000 } : tokens
      const ending = { charge: 1, prompt: below(40), cached: 0, completion: below(30) }
      const strict = await ledger.admit(request(caller, 1, more)).catch(({ code }) => String(code))
      const lenient = await ledger.admit(shadow(twin, 1, more))
      refused.push(typeof strict === 'string' ? strict : undefined)
      noted.push(lenient.fields.wouldRefuse)
      if (typeof strict !== 'string') await ledger.settle(strict, ending)
      await ledger.settle(lenient, ending)
    }
    return { refused, noted }
  })
  t.same(noted, refused)
  t.ok(['invalid_parameter', 'rate_limit_exceeded', undefined].every((one) => noted.includes(one)))
})

t.test('concurrency refuses nobody, of the plan or of the key', async (t) => {
  for (const [plan, key] of [
    [{ concurrency: 1 }, {}],
    [{}, { concurrency: 1 }],
  ] as const) {
    const { ledger, admit } = await limited(t, plan, key)
    const first = await admit()
    const second = await admit()
    const noted = [first, second].map(({ fields }) => fields.wouldRefuse)
    t.same(noted, [undefined, 'concurrency_limit_exceeded'])
    for (const hold of [first, second]) await ledger.settle(hold, used(1))
    t.equal((await admit()).fields.wouldRefuse, undefined)
  }
})

t.test('keys, scopes, models and suspended accounts are refused as ever', async (t) => {
  const { ledger, link } = await open(t, 0)
  const refusedAs = async (code: string, fields: object, more = {}) => {
    const caller = await makeAccount(link, fields)
    await t.rejects(ledger.admit(shadow(caller, 1, more)), { code })
    t.equal(await link.client.exists(keys.holdRows(caller.ref)), 0)
  }
  await refusedAs('api_key_revoked', { key: { revoked_at: 1 } })
  await refusedAs('api_key_expired', { key: { expires_at: 1 } })
  await refusedAs('insufficient_scope', { key: { scopes: 'billing' } })
  await refusedAs('model_not_allowed', { key: { models: 'other' } })
  await refusedAs('account_suspended', { account: { status: 'suspended' } })
  await refusedAs('invalid_api_key', {}, { ref: 'nobody000000', hmac: 'x' })
})

t.test('no text of a client makes a hold one of shadow mode', async (t) => {
  const { ledger, caller, sums, differences } = await open(t, 10)
  const texts = ['"shadow":true', '","shadow":true,"x":"', '\\","shadow":true,"x":"\\']
  for (const text of texts) {
    const meta = { requestId: text, sessionId: text, messageId: text }
    const more = { meta, model: text }
    await t.rejects(ledger.admit(request(caller, 11, more)), { code: 'insufficient_balance' })
    await ledger.settle(await ledger.admit(request(caller, 1, more)), used(21))
    t.match(await sums(), { balance: 0, owed: 11 })
    await topUp(ledger, caller, 21)
  }
  t.same(await differences(), [])
})

/** Holds that nobody renews, so that whoever comes next reaps them. */
async function unrenewed(t: Test, tokens: number) {
  const opened = await open(t, tokens, 900)
  const { link, caller } = opened
  await reapingStarted(link)
  const scripts = createScripts({ library: ledgerScripts, link })
  const admission = openAdmission({ scripts, leaseMs: 900 })
  const checkpoint = async (id: string, charge: number) => {
    const line = `${id} ${charge} 7 0 ${charge}`
    await scripts.run('checkpoint', namesOf(caller), ['900', line])
    await moveLeases(link, caller.ref, { to: 1, of: [id] })
  }
  return { ...opened, scripts, admission, checkpoint }
}

const namesOf = ({ ref }: TestAccount) => [keys.account(ref), keys.holdRows(ref), keys.journal(ref)]

t.test("a killed gateway's hold of shadow mode becomes no debt, whoever reaps it", async (t) => {
  const { ledger, caller, admission, checkpoint, sums, entries, usage, differences } =
    await unrenewed(t, 30)
  const hold = await admission.admit(shadow(caller, 100))
  await checkpoint(hold.id, 80)
  await t.rejects(ledger.admit(request(caller, 1)), { code: 'insufficient_balance' })
  t.same(await sums(), { balance: 0, reserved: 0, available: 0, owed: 0 })
  t.match((await entries()).slice(1), [{ type: 'charge', amount: -30, waived: 50 }])
  t.match(await usage(), [{ requests: 1, cost: 80, waived: 50 }])
  t.same(await differences(), [])
})

t.test('a gateway from before shadow mode can read marks, and the last hour of sums', async (t) => {
  const { link, ledger, caller, ref, admission, checkpoint } = await unrenewed(t, 30)
  const hold = await admission.admit(shadow(caller, 100))
  await checkpoint(hold.id, 80)
  await ledger.balance(ref)
  const mark = await link.client.hget(keys.settled(ref, hourOfHold(hold.id)), hold.id)
  // It takes a mark with more words for none, and charges all again. Of sums, it reads five words.
  t.equal(mark, 'r 80 7 0 80')
  const day = Math.floor(Date.now() / 86_400_000)
  const sums = await link.client.hget(keys.usageDay(ref, day), `m|${hold.fields.keyId}|all`)
  t.match(sums, /^1 7 0 80 80 50 /)
})

t.test('one that enforces is owed, though a gateway in shadow mode reaps it', async (t) => {
  const { ledger, caller, admission, checkpoint, sums } = await unrenewed(t, 30)
  const hold = await admission.admit(request(caller, 30))
  await checkpoint(hold.id, 80)
  await ledger.admit(shadow(caller, 1))
  t.match(await sums(), { balance: 0, owed: 50 })
})

for (const [total, entry, rest] of [
  [70, { amount: 0, waived: -10 }, { balance: 0, cost: 70, waived: 40 }],
  [30, { amount: 0, waived: -50 }, { balance: 0, cost: 30, waived: undefined }],
  [20, { amount: 10, waived: -50 }, { balance: 10, cost: 20, waived: undefined }],
  [95, { amount: 0, waived: 15 }, { balance: 0, cost: 95, waived: 65 }],
] as const) {
  t.test(`reaped at 80 of which 50 were waived, then settled at ${total}`, async (t) => {
    const { caller, scripts, admission, checkpoint, sums, usage, differences, ledger } =
      await unrenewed(t, 30)
    const hold = await admission.admit(shadow(caller, 100))
    await checkpoint(hold.id, 80)
    await ledger.balance(caller.ref)
    const order = settleOrder(hold, used(total))
    const booked = [`${total}`, '0', `${rest.balance}`]
    const waivedInAll = `${rest.waived ?? 0}`
    t.same((await sendOrder(scripts, order)).values.slice(2), [...booked, 0, waivedInAll])
    t.same((await sendOrder(scripts, order)).values.slice(2), [...booked, 1, '0'])
    t.match((await ledger.transactions(caller.ref, page)).data[2], {
      type: 'correction',
      charged_before: 80,
      owed: undefined,
      ...entry,
    })
    t.match(await sums(), { balance: rest.balance, reserved: 0, owed: 0 })
    const [row] = await usage()
    t.equal(row?.cost, rest.cost)
    t.equal(row?.waived, rest.waived)
    t.same(await differences(), [])
  })
}

t.test('a hold that was reaped goes on with what is left, and is not stopped', async (t) => {
  const { ledger, link, caller, ref, sums, differences } = await open(t, 50, 900)
  await reapingStarted(link)
  const hold = await ledger.admit(shadow(caller, 50))
  const stopped: string[] = []
  hold.onStop((reason) => stopped.push(reason))
  /** In one tick with the work that reaps, so that no checkpoint renews the lease in between. */
  const expired = async <T>(reaping: () => Promise<T>) => {
    const [, reaped] = await Promise.all([
      moveLeases(link, ref, { to: 1, of: [hold.id] }),
      reaping(),
    ])
    return reaped
  }
  spend(hold, { charge: 20 })
  await untilRow(link, hold, '50 20 ')
  const other = await expired(() => ledger.admit(request(caller, 30)))
  // The other has taken the rest.
  await until(() => hold.wouldStop)
  spend(hold, { charge: 60 })
  await untilRow(link, hold, '0 60 ')
  await expired(() => ledger.balance(ref))
  await untilRow(link, hold, '0 0 ')
  t.same(stopped, [])
  t.match(await ledger.settle(hold, used(45)), { charge: 45, owed: 0 })
  await ledger.settle(other, used(30))
  t.match(await sums(), { balance: 0, reserved: 0, owed: 0 })
  t.same(await differences(), [])
  t.equal(await link.client.hget(keys.account(ref), 'waived'), '25')
})

t.test('a settlement of a hold that Redis forgot waives as well', async (t) => {
  const { ledger, link, caller, ref, sums, entries, differences } = await open(t, 30)
  const hold = await ledger.admit(shadow(caller, 30))
  const { client } = link
  await client.del(keys.holdRows(ref))
  await client.hset(keys.account(ref), { reserved: 0, open: 0, [`open:${hold.fields.keyId}`]: 0 })
  t.match(await ledger.settle(hold, used(80)), { charge: 80, owed: 0 })
  t.match((await entries()).slice(1), [{ type: 'charge', amount: -30, waived: 50 }])
  t.match(await sums(), { balance: 0, reserved: 0, owed: 0 })
  t.same(await differences(), [])
})

t.test('what was waived stays in the audit when the journal is archived', async (t) => {
  const { link, ledger, caller, ref } = await open(t, 5)
  for (let i = 0; i < 3; i++) {
    await ledger.settle(await ledger.admit(shadow(caller, 10)), used(10))
  }
  const store = diskStore(await tempDir(t))
  const place = auditPlace(link)
  const { client } = link
  const archive = createArchive({ ...place, store })
  const differences = async () => (await audit({ ...place, archive }, { ref })).differences
  t.equal(await archive.archive(ref, Date.now() + 60_000), 4)
  t.same(await differences(), [])
  t.equal(await client.hget(keys.account(ref), 'archived_waived'), '25')
  await client.hset(keys.account(ref), 'waived', 24)
  t.match(await differences(), [{ what: 'waived', expected: 25, found: 24 }])
})
