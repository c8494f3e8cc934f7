// Admission: every refusal by its code, and which parts of the two scripts are repeated.

import { readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import type { Plan } from '../../src/config/config.ts'
import { createPlanGuesses } from '../../src/ledger/admission.ts'
import type { AdmitRequest } from '../../src/ledger/admit.ts'
import type { Hold } from '../../src/ledger/hold.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { hourOfHold } from '../../src/ledger/hold-rows.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import { keys } from '../../src/redis/keys.ts'
import {
  connectLink,
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
import { until } from '../fixtures/until.ts'

const server = await startRedis(t)
const soon = () => Math.floor(Date.now() / 1000) + 60
const past = () => Math.floor(Date.now() / 1000) - 1
const hourMs = 3_600_000
const holdIdOf = (ms: number) => `${ms.toString(16).padStart(12, '0')}${newHoldId().slice(12)}`

async function open(plans: Record<string, Partial<Plan>> = {}) {
  const link = await connectLink(t, server.socket)
  const all = Object.entries(plans).map(
    ([name, plan]) => [name, { ...unlimited, name, ...plan }] as const,
  )
  const ledger = await openLedger(t, {
    link,
    plans: () => new Map([['default', unlimited], ...all]),
  })
  return { link, ledger }
}

const refusals = [
  ['api_key_revoked', { key: { revoked_at: past() } }],
  ['api_key_expired', { key: { expires_at: past() } }],
  ['insufficient_scope', { key: { scopes: 'billing sessions' } }],
  ['account_suspended', { account: { status: 'suspended' } }],
] as const

for (const [code, fields] of refusals) {
  t.test(`${code}: identify and admit refuse`, async (t) => {
    const { link, ledger } = await open()
    const caller = await makeAccount(link, fields)
    await topUp(ledger, caller, 100)
    await t.rejects(ledger.identify(caller), { code })
    await t.rejects(ledger.admit(request(caller, 1)), { code })
    t.equal(
      await link.client.hget(keys.account(caller.ref), 'requests'),
      null,
      'it counted nothing',
    )
  })
}

t.test('an unknown key, and the key of another account, are invalid_api_key', async (t) => {
  const { link, ledger } = await open()
  const caller = await makeAccount(link)
  await t.rejects(ledger.identify({ ...caller, hmac: 'other' }), { code: 'invalid_api_key' })
  await t.rejects(ledger.admit(request({ ...caller, ref: 'nobody' }, 1)), {
    code: 'invalid_api_key',
  })
  await t.rejects(ledger.balance('nobody'), { code: 'account_not_found' })
})

t.test('a key that ends later is good until then, and an empty scope asks for none', async (t) => {
  const { link, ledger } = await open()
  const caller = await makeAccount(link, {
    key: { revoked_at: soon(), expires_at: soon(), scopes: '', models: 'a b' },
  })
  const identity = await ledger.identify({ ...caller, scope: '' })
  t.match(identity, {
    accountId: `acct_${caller.ref}`,
    keyId: `key_${caller.ref}`,
    models: ['a', 'b'],
    accountName: 'A',
  })
  const seen = Number(await link.client.hget(keys.key(caller.ref, 'hmac'), 'last_used_at'))
  t.ok(Math.abs(seen - Date.now() / 1000) < 60)
})

t.test('a model is refused by the key, or by the plan', async (t) => {
  const { link, ledger } = await open({ small: { models: ['m'] } })
  const byKey = await makeAccount(link, { key: { models: 'm other/x' } })
  const byPlan = await makeAccount(link, { account: { plan: 'small' } })
  for (const caller of [byKey, byPlan]) {
    await ledger.admit(request(caller, 0))
    await t.rejects(ledger.admit(request(caller, 0, { model: 'mm' })), {
      code: 'model_not_allowed',
    })
  }
  await ledger.admit(request(byKey, 0, { model: 'other/x' }))
})

t.test('a plan that no configuration knows has the limits of the default plan', async (t) => {
  const { link, ledger } = await open()
  const caller = await makeAccount(link, { account: { plan: 'gone away' } })
  const hold = await ledger.admit(request(caller, 0))
  t.equal(hold.fields.plan, 'gone away')
})

for (const hoursOff of [-5, 5]) {
  t.test(`a clock ${hoursOff} hours off charges into Redis' hour, in two flights`, async (t) => {
    const link = await connectLink(t, server.socket)
    const now = () => Date.now() + hoursOff * hourMs
    const flights: string[] = []
    const events = { command: (script: string) => void flights.push(script) }
    const ledger = await openLedger(t, { link, now, events })
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 100)
    flights.length = 0
    const before = Math.floor(Date.now() / hourMs)
    const hold = await ledger.admit(request(caller, 10, { holdId: holdIdOf(now()) }))
    t.match(await ledger.settle(hold, used(5)), { charge: 5, isWaiting: false })
    t.same(flights, ['admit', 'settle'])
    const { ref } = caller
    const found = (await link.client.keys(`{${ref}}:usage:*`)).join()
    const words = (await link.client.hget(found, `m|key_${ref}|all`))?.split(' ') ?? []
    const hours = [before, Math.floor(Date.now() / hourMs)]
    t.ok(
      hours.some(
        (hour) => words[6] === `${hour}` && found === keys.usageDay(ref, Math.floor(hour / 24)),
      ),
      `${found} ${words.join(' ')}`,
    )
    t.equal(await link.client.hget(keys.settled(ref, hourOfHold(hold.id)), hold.id), 's 5 0')
  })
}

t.test('a shut gate lets nobody in, and a full spool no hold', async (t) => {
  const { link, ledger } = await open()
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 10)
  const scripts = createScripts({ library: ledgerScripts, link })
  const [shut, held] = [new Error('shut'), [] as Hold[]]
  const pass = () => {
    throw shut
  }
  const onAdmitted = (hold: Hold) => void held.push(hold)
  const parts = { scripts, leaseMs: 30_000, onAdmitted }
  const closed = openAdmission({ ...parts, gate: { pass } })
  await t.rejects(closed.identify(caller), shut)
  await t.rejects(closed.look(caller.ref), shut)
  await t.rejects(closed.admit(request(caller, 1)), shut)
  const full = openAdmission({ ...parts, spool: { isFull: true } })
  t.match(await full.identify(caller), { accountName: 'A' })
  await t.rejects(full.admit(request(caller, 1)), { code: 'ledger_unavailable' })
  t.same(held, [])
  t.match(await ledger.balance(caller.ref), { balance: 10, reserved: 0 })
  const hold = await openAdmission(parts).admit(request(caller, 1))
  t.same(held, [hold])
})

t.test('a hold whose reply was lost is reported, a refused one is not', async (t) => {
  const unclear: string[] = []
  const openOn = (answer: () => Promise<unknown>) => {
    const link = Object({ client: { evalsha: answer } })
    const scripts = createScripts({ library: ledgerScripts, link })
    const onUnclear = ({ holdId }: AdmitRequest) => void unclear.push(holdId)
    return openAdmission({ scripts, leaseMs: 30_000, onUnclear })
  }
  const caller = { ref: 'r', hmac: 'h', scope: 'chat' } as const
  const refusing = openOn(async () => ['invalid_api_key', 1])
  await t.rejects(refusing.admit(request(caller, 1)), { code: 'invalid_api_key' })
  t.same(unclear, [])
  const lost = openOn(() => Promise.reject(new Error('Connection is closed.')))
  await t.rejects(lost.admit(request(caller, 1, { holdId: 'a' })), { code: 'ledger_unavailable' })
  t.same(unclear, ['a'])
})

t.test('a script is asked again with what it lacked', async (t) => {
  const answers: unknown[] = [
    ['plan', 1, 'big'],
    ['reap', 2],
    ['ok', 2, 100, 1],
    ['windows', 3],
    ['gone', 4],
  ]
  answers.push(['invalid_api_key', 5])
  const asked: string[][] = []
  const evalsha = async (...words: string[]) => (asked.push(words), answers.shift())
  const scripts = createScripts({ library: ledgerScripts, link: Object({ client: { evalsha } }) })
  const learned: number[] = []
  let reaped = 0
  const windows = { text: '1 2 1 2 1 2', learn: (nowMs: number) => void learned.push(nowMs) }
  const onReaped = (count: number) => (reaped += count)
  const admission = openAdmission({ scripts, leaseMs: 30_000, windows, onReaped })
  const caller = { ref: 'r', hmac: 'h', scope: 'chat' } as const
  // No script of an admission has this word.
  const unknown = { code: 'ledger_unavailable' }
  await t.rejects(admission.admit(request(caller, 1)), unknown)
  t.same([reaped, learned], [100, [3]])
  const plans = asked.map((words) => /(\S+)$/.exec(words[2 + 4 + 3] ?? '')?.[1])
  t.same(plans, ['default', 'big', undefined, 'big', 'big'])
  await t.rejects(admission.admit(request(caller, 1)), { code: 'invalid_api_key' })
})

t.test('the default plan is guessed first; of over 10,000 the oldest is dropped', async (t) => {
  const guesses = createPlanGuesses()
  t.equal(guesses.get('a'), 'default')
  guesses.set('a', 'big')
  guesses.set('b', 'big')
  for (let i = 0; i < 9998; i++) guesses.set(`other${i}`, 'x')
  t.equal(guesses.get('a'), 'big')
  guesses.set('one more', 'x')
  t.equal(guesses.get('a'), 'big')
  t.equal(guesses.get('b'), 'default')
})

t.test('hundreds of expired holds are reaped when a request asks for their money', async (t) => {
  const { link } = await open()
  const leaseMs = 1
  await reapingStarted(link)
  let reaped = 0
  const scripts = createScripts({ library: ledgerScripts, link })
  const admission = openAdmission({
    scripts,
    leaseMs,
    onReaped: (count) => (reaped += count),
    onOwing: () => t.fail('nothing is owed'),
  })
  const caller = await makeAccount(link)
  await link.client.hset(keys.account(caller.ref), 'granted', 350)
  for (let i = 0; i < 350; i++) {
    const holdId = holdIdOf(Date.now() - (i % 7) * hourMs)
    await admission.admit(request(caller, 1, { min: 0, holdId }))
  }
  await until(async () => (await admission.look(caller.ref)).reserved === 0)
  const ids = Array.from({ length: 350 }, () => newHoldId())
  const key = keys.holdRows(caller.ref)
  await link.client.hset(
    key,
    Object.fromEntries(ids.map((id) => [id, `1 0 0 0 0 key_${caller.ref} m {} 0000000000001`])),
  )
  await link.client.hset(keys.account(caller.ref), {
    reserved: 350,
    open: 350,
    next_expiry: 0,
    [`open:key_${caller.ref}`]: 350,
  })
  reaped = 0
  const hold = await admission.admit(request(caller, 300))
  t.equal(hold.amount, 300)
  t.equal(reaped, 300, 'a hundred a call, and no more than were needed')
  t.equal(
    (await admission.look(caller.ref)).reserved,
    0,
    'an operator sees them all gone, and the one that expired since',
  )
})

t.test('a settlement that was written first counts, even if Redis reads it later', async (t) => {
  const server = await startRedis(t)
  const link = await connectLink(t, server.socket)
  const one = await openLedger(t, { link })
  const other = await openLedger(t, { link: await connectLink(t, server.socket) })
  const [poor, busy] = [
    await makeAccount(link),
    await makeAccount(link, { key: { concurrency: 1 } }),
  ]
  for (const caller of [poor, busy]) await topUp(one, caller, 10)
  for (const caller of [poor, busy]) {
    const hold = await one.admit(request(caller, 10))
    const filler = await makeAccount(link)
    process.kill(server.pid, 'SIGSTOP')
    // A signal comes later than the call that sends it, and Redis must not read one connection before it has both.
    await until(() => readFileSync(`/proc/${server.pid}/stat`, 'utf8').includes(') T '))
    // It waits at the other's connection, which Redis reads first and to its end.
    const filling = other.identify(filler)
    await turn()
    const settled = one.settle(hold, used(0))
    const next = other.admit(request(caller, 10))
    await turn()
    process.kill(server.pid, 'SIGCONT')
    await Promise.all([filling, settled])
    t.equal((await next).amount, 10)
  }
})

t.test(
  'a name with line ends, which no route lets through, moves nothing in the reply',
  async (t) => {
    const { link, ledger } = await open()
    const caller = await makeAccount(link)
    await link.client.hset(keys.account(caller.ref), { granted: 50, name: 'a\nother\nkey_x\n9\n9' })
    const { amount, fields } = await ledger.admit(request(caller, 20))
    t.equal(amount, 20)
    t.match(fields, { keyId: `key_${caller.ref}`, available: 50, accountName: 'a' })
  },
)
