// Random interleavings of everything that touches a balance, from two connections, on a real Redis with short leases.
// After every step the sums are read at the same instant and compared with the journal, the marks and a model. Days, weeks
// and months are short here, the gateways' clocks are apart, and plans and budgets change: so allowances are renewed and
// budgets end in the middle of everything.

import { Readable } from 'node:stream'
import t from 'tap'
import type { Test } from 'tap'
import type { Plan } from '../../src/config/config.ts'
import type { Admission } from '../../src/ledger/admission.ts'
import { parseWindow } from '../../src/budget.ts'
import { parseAllowance, parseCounted } from '../../src/ledger/allowances.ts'
import type { CountedIn } from '../../src/ledger/allowances.ts'
import { audit } from '../../src/ledger/audit.ts'
import type { Hold } from '../../src/ledger/hold.ts'
import { creditOrder } from '../../src/ledger/credit.ts'
import { charge as chargeAt } from '../../src/ledger/price.ts'
import { fieldsOf, toTransaction, usageIn } from '../../src/ledger/transaction.ts'
import type { JournalEntry } from '../../src/ledger/transaction.ts'
import { hourOfHold, parseHoldRow } from '../../src/ledger/hold-rows.ts'
import { releaseOrder, sendOrder, settleOrder } from '../../src/ledger/orders.ts'
import type { CreditOrder, Order, SettleOrder } from '../../src/ledger/orders.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { readUsagePieces } from '../../src/ledger/usage.ts'
import type { UsageRow } from '../../src/ledger/usage.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import type { LedgerScripts } from '../../src/ledger/library.ts'
import type { ScriptLink, Reply } from '../../src/redis/scripts.ts'
import { GatewayError } from '../../src/errors.ts'
import { accountKeys, keys } from '../../src/redis/keys.ts'
import {
  auditPlace,
  connectLink,
  makeAccount,
  newHoldId,
  reapingStarted,
  request,
} from '../fixtures/ledger.ts'
import { shortWindows } from '../fixtures/borders.ts'
import { openAdmission, spend, unlimited } from '../fixtures/ledger.ts'
import type { TestAccount } from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'
import { seeded } from '../fixtures/random.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const seed = Number(process.env.SEED ?? 20261121)
const steps = Number(process.env.STEPS ?? 2500)
const leaseMs = 40
/** Of a day, a week and a month. */
const lengths = [150, 400, 900] as const
const clocksApartMs = 2000

const allowance = { tokens: 80, every: 'day', rollover: false } as const
const plans: ReadonlyMap<string, Plan> = new Map([
  ['default', unlimited],
  ['daily', { ...unlimited, allowance }],
  ['weekly', { ...unlimited, allowance: { ...allowance, tokens: 120, every: 'week' } }],
  ['keeping', { ...unlimited, allowance: { ...allowance, tokens: 40, rollover: true } }],
])
/** The most that a plan gives in the shortest window. */
const mostGiven = 120
const budgets = ['', '700 day', '500 day', '900 week', '2000 month']

/** A prompt costs nothing, so that a request of 0 tokens counts as one, too. */
const price = { input: 0n, output: 700_000n, cachedInput: 0n, request: 0n }
const costOf = (completion: number) => chargeAt(price, { prompt: 7, cached: 0, completion })

function createRandom() {
  const below = seeded(seed)
  return { below, pick: <T>(from: readonly T[]): T => from[below(from.length)] as T }
}

interface Gateway {
  readonly link: ScriptLink
  readonly scripts: LedgerScripts
  readonly windows: ReturnType<typeof shortWindows>
  readonly admission: Admission
  send(order: Order): Promise<Reply>
}

interface Life {
  /** The process that sends the checkpoints of this hold, in order. */
  readonly owner: Gateway
  readonly caller: TestAccount
  readonly hold: Hold
  readonly isShadow: boolean
  /** The most that it ever held in all. */
  granted: number
  checkpoint: number
  reopened: boolean
  order?: SettleOrder
}

interface World {
  readonly lives: Life[]
  readonly released: { ref: string; id: string }[]
  readonly credited: Map<string, number>
  /** What was refunded, by account. */
  readonly refunded: Map<string, number>
  readonly payments: { ref: string; reference: string; amount: number }[]
  readonly journal: Map<string, Seen>
  readonly begunMs: number
}

interface Seen {
  cursor: string
  sum: number
  /** What allowances gave, less what they took back; what is left of that; and what was taken from it in all. */
  given: number
  left: number
  drawn: number
  renewals: number
  /** What was counted in windows of budgets, by `<field> <since>`. */
  readonly counted: Map<string, number>
  spent: number
  corrections: number
  owed: number
  waived: number
  /** How many times something was owed, and how many times it was paid. */
  debts: number
  repayments: number
  /** How many times a correction took back what had been waived. */
  unwaived: number
  /** Everything that was used: paid, owed and waived together. */
  readonly charged: Map<string, number>
  /** The part of it that was paid or is owed. */
  readonly due: Map<string, number>
}

function openGateway(link: ScriptLink, skewMs: number): Gateway {
  const scripts = createScripts({ library: ledgerScripts, link })
  const windows = shortWindows(lengths, skewMs)
  const admission = openAdmission({ scripts, leaseMs, windows, plans: () => plans })
  return { link, scripts, windows, admission, send: (order) => sendOrder(scripts, order) }
}

type Random = ReturnType<typeof createRandom>

async function admit(world: World, owner: Gateway, caller: TestAccount, random: Random) {
  const want = random.below(400)
  const isShadow = random.below(3) === 0
  try {
    const min = random.below(want + 1)
    const meta = { requestId: 'req_1', price }
    const hold = await owner.admission.admit(request(caller, want, { min, isShadow, meta }))
    const { amount } = hold
    const { wouldRefuse } = hold.fields
    if ((amount < min && !wouldRefuse) || amount > want || (wouldRefuse && !isShadow))
      throw new Error(`granted ${amount} of ${want}, at least ${min}; ${wouldRefuse}`)
    const life = { owner, caller, hold, isShadow, granted: amount }
    world.lives.push({ ...life, checkpoint: 0, reopened: false })
  } catch (error) {
    const codes = ['insufficient_balance', 'budget_exceeded']
    const isRefusal = error instanceof GatewayError && codes.includes(error.code)
    if (!isRefusal || isShadow) throw error
  }
}

async function checkpoint(life: Life, random: Random) {
  const { scripts } = life.owner
  const { ref } = life.caller
  const { progress, id } = life.hold
  const completion = progress.completion + random.below(170)
  const charge = costOf(completion)
  spend(life.hold, { charge, prompt: 7, completion })
  const line = `${id} ${charge} 7 ${progress.cached} ${completion}`
  const reply = await scripts.run('checkpoint', accountKeys(ref), [`${leaseMs}`, line])
  if (reply.values[3] === 'ok') life.checkpoint = charge
  return reply.values[3]
}

/** Also a checkpoint. Its reply may be lost: then nobody knows what the hold has now. */
async function extend(life: Life, random: Random) {
  const { owner, hold, caller } = life
  const { ref } = caller
  const { progress } = hold
  const completion = progress.completion + random.below(90)
  const charge = costOf(completion)
  spend(hold, { charge, prompt: 7, completion })
  const line = `${hold.id} ${charge} 7 ${progress.cached} ${completion}`
  const amount = hold.amount + random.below(200)
  const shares = 1 + random.below(8)
  const { windows } = owner
  const args = [line, `${amount} ${random.below(50)} ${shares}`, windows.text]
  const names = [...accountKeys(ref), keys.key(ref, caller.hmac)]
  const ask = (done: string) => owner.scripts.run('extend', names, [`${leaseMs} ${done}`, ...args])
  let reply = await ask('0 0')
  if (reply.word === 'reap') {
    await owner.scripts.run('reap', accountKeys(ref), [`${leaseMs}`])
    reply = await ask('1 0')
  }
  if (reply.word === 'windows') windows.learn(reply.nowMs)
  if (reply.word !== 'ok') return reply.word
  const held = Number(reply.values[2])
  // A reaping charges all that was used, even if that is more than the hold had.
  const most = Math.max(amount, life.granted, life.checkpoint)
  if (held > most) throw new Error(`extended to ${held} of ${most}`)
  life.checkpoint = charge
  life.granted = Math.max(life.granted, held)
  if (random.below(4) > 0) hold.extended({ amount: held })
  return reply.word
}

async function settle({ send, link }: Gateway, life: Life, random: Random, isAlone = false) {
  const { progress } = life.hold
  const more = random.below(430) - 60
  const completion = random.below(5) === 0 ? 0 : Math.max(0, progress.completion + more)
  const charge = costOf(completion)
  const order = (life.order ??= settleOrder(life.hold, {
    charge,
    prompt: 7,
    cached: 1,
    completion,
  }))
  const reply = await send(order)
  if (reply.word !== 'ok') throw new Error(`settle answered ${reply.word}`)
  const [, , charged, owed] = reply.values
  if (Number(charged) !== order.charge) throw new Error('the charge is not what was used')
  if (Number(owed) === 0 || reply.values[5] === 1 || !isAlone) return
  if (
    Number(reply.values[4]) !==
    Number(await link.client.hget(keys.account(life.caller.ref), 'reserved'))
  )
    throw new Error('something is owed although there was money')
}

async function credit(
  { send }: Gateway,
  world: World,
  { ref }: TestAccount,
  random: Random,
  other: Gateway,
) {
  const amount = random.below(4) === 0 ? -random.below(300) - 1 : random.below(500) + 1
  const type = amount < 0 ? 'adjustment' : random.below(5) === 0 ? 'refund' : 'topup'
  const order = creditOrder({ ref, idempotencyId: newHoldId(), amount, type }, Date.now())
  if (type === 'topup' && random.below(2) === 0)
    return pay(world, order, [send, other.send], random)
  const replies = await Promise.all([send(order), send(order)])
  for (const { word } of replies) {
    if (word !== 'ok' && word !== 'insufficient_balance') throw new Error(`credit answered ${word}`)
  }
  if (replies[1].word !== 'ok') return
  add(world.credited, ref, amount)
  if (type === 'refund') add(world.refunded, ref, amount)
}

/** The same payment by two gateways, each with an id of its own; sometimes one that was made long before, or with another amount. */
async function pay(
  world: World,
  order: CreditOrder,
  sends: readonly Gateway['send'][],
  random: Random,
) {
  const { ref } = order
  const old = world.payments.filter((payment) => payment.ref === ref)
  const known = old.length > 0 && random.below(2) === 0 ? random.pick(old) : undefined
  const { reference = `pay_${order.id}`, amount = order.amount } = known ?? {}
  const paying = { ...order, reference, amount, at: known ? 0 : order.at }
  const orders = sends.map((_, i) => ({ ...paying, id: i === 0 ? order.id : newHoldId() }))
  const replies = await Promise.all(sends.map((send, i) => send(orders[i] ?? paying)))
  for (const { word, values } of replies) {
    if (word !== 'ok' || Number(values[3]) !== amount) throw new Error(`a payment is ${word}`)
  }
  if (new Set(replies.map(({ values }) => values[2])).size > 1)
    throw new Error('one payment has two transactions')
  const wrong = await sends[0]?.({ ...paying, id: newHoldId(), amount: amount + 1 })
  if (wrong?.word !== 'reference_reused') throw new Error(`another amount is ${wrong?.word}`)
  if (known) return
  world.payments.push({ ref, reference, amount })
  add(world.credited, ref, amount)
}

function add(sums: Map<string, number>, ref: string, amount: number): void {
  sums.set(ref, (sums.get(ref) ?? 0) + amount)
}

/** The operator gives the account another plan, or it or its key another budget. */
async function change({ link }: Gateway, { ref, hmac }: TestAccount, random: Random) {
  const what = random.below(3)
  if (what === 0)
    return link.client.hset(keys.account(ref), { plan: random.pick([...plans.keys()]) })
  const row = what === 1 ? keys.account(ref) : keys.key(ref, hmac)
  return link.client.hset(row, { budget: random.pick(budgets) })
}

async function expectRefusal(admission: Promise<Hold>) {
  const error: unknown = await admission.catch((thrown: unknown) => thrown)
  if (!(error instanceof GatewayError)) throw new Error('a released hold was admitted')
}

async function step(
  world: World,
  gateways: readonly Gateway[],
  callers: readonly TestAccount[],
  random: Random,
  isAlone: boolean,
) {
  const gateway = random.pick(gateways)
  const caller = random.pick(callers)
  const open = world.lives.filter((life) => !life.order)
  const dice = random.below(100)
  if (dice < 30 || world.lives.length === 0) return admit(world, gateway, caller, random)
  if (dice < 39) return credit(gateway, world, caller, random, random.pick(gateways))
  // The first account stays without allowance and budget.
  if (dice < 40) return change(gateway, random.pick(callers.slice(1)), random)
  if (dice < 44) return gateway.admission.look(caller.ref)
  if (dice < 48) {
    const id = newHoldId()
    world.released.push({ ref: caller.ref, id })
    await gateway.send(releaseOrder(caller.ref, caller.hmac, id))
    return expectRefusal(gateway.admission.admit(request(caller, 1, { holdId: id })))
  }
  if (dice < 56) return settle(gateway, random.pick(world.lives), random)
  const lost = open.filter(({ reopened }) => reopened)
  const some = lost.length > 0 && random.below(2) === 0 ? lost : open.slice(-12)
  const life = some.length > 0 ? random.pick(some) : undefined
  if (!life) return
  if (dice < 80) {
    const grows = dice < 66
    const state = grows ? await extend(life, random) : await checkpoint(life, random)
    if (state === 'gone' && random.below(4) > 0)
      life.reopened = (await life.owner.admission.openAgain(life.hold)) || life.reopened
    return
  }
  return settle(gateway, life, random, isAlone)
}

function checkEntry(world: World, seen: Seen, entry: JournalEntry) {
  const fields = fieldsOf(entry)
  const { type, amount, balance, hold, flags, owed = '0', waived = '0', usage = '' } = fields
  const { allowance: drawn = '0', budget } = fields
  if (type === 'charge' || type === 'repayment') seen.spent -= Number(amount)
  seen.sum += Number(amount)
  seen.left -= Number(drawn)
  seen.drawn += Number(drawn)
  if (type === 'allowance') {
    seen.given += Number(amount)
    seen.left += Number(amount)
    seen.renewals++
  }
  if (seen.left < 0) throw new Error(`an allowance of ${seen.left}`)
  if (budget) count(seen.counted, parseCounted(budget))
  seen.owed += Number(owed)
  seen.waived += Number(waived)
  if (Number(waived) < 0) seen.unwaived++
  if (Number(owed) > 0) seen.debts++
  if (type === 'repayment') {
    seen.owed += Number(amount)
    seen.repayments++
  }
  seen.cursor = `(${entry[0]}`
  if (seen.sum !== Number(balance)) throw new Error(`balance_after is ${balance}, not ${seen.sum}`)
  if (!hold) return
  const before = seen.charged.get(hold) ?? 0
  const due = Number(owed) - Number(amount)
  const charged = before + due + Number(waived)
  const dueInAll = (seen.due.get(hold) ?? 0) + due
  seen.charged.set(hold, charged)
  seen.due.set(hold, dueInAll)
  if (dueInAll < 0) throw new Error(`${-dueInAll} came out of nothing`)
  if (dueInAll > charged) throw new Error(`${charged - dueInAll} waived in all`)
  const { type: shown, charged_before = 0 } = toTransaction(entry)
  if (shown !== (before > 0 ? 'correction' : 'charge') || charged_before !== before)
    throw new Error(`a ${shown} of ${charged_before} after ${before} was charged`)
  if (before > 0) seen.corrections++
  if (charged !== costOf(usageIn(usage).completion))
    throw new Error(`${charged} were charged in all for ${usage}`)
  const life = world.lives.find((one) => one.hold.id === hold)
  if (life && Number(life.isShadow ? owed : waived) !== 0)
    throw new Error(`owed ${owed} and waived ${waived}; shadow: ${life.isShadow}`)
  // Here only reaping estimates.
  if (flags !== 'e' || !life) return
  if (life.reopened ? charged > life.checkpoint : charged !== life.checkpoint)
    throw new Error(`reaped at ${charged}, not ${life.checkpoint}`)
}

function count(sums: Map<string, number>, parts: readonly CountedIn[]) {
  for (const { field, since, tokens } of parts) {
    const name = `${field} ${since}`
    sums.set(name, (sums.get(name) ?? 0) + tokens)
  }
}

/** What the windows of budgets say, that is not what journal and open holds count in them. */
function wrongWindows(
  account: Readonly<Record<string, string>>,
  rows: readonly string[],
  seen: Seen,
): readonly string[] {
  const sums = new Map(seen.counted)
  for (const row of rows) count(sums, parseHoldRow(row).countedIn)
  return Object.entries(account).flatMap(([field, text]) => {
    if (field !== 'window' && !field.startsWith('window:')) return []
    const window = parseWindow(text)
    const expected = sums.get(`${field} ${window?.since}`) ?? 0
    return window?.used === expected ? [] : [`${field} is ${text}, not ${expected}`]
  })
}

async function check(world: World, { client }: ScriptLink, ref: string) {
  const seen: Seen = world.journal.get(ref) ?? {
    cursor: '-',
    sum: 0,
    given: 0,
    left: 0,
    drawn: 0,
    renewals: 0,
    counted: new Map(),
    spent: 0,
    corrections: 0,
    owed: 0,
    waived: 0,
    debts: 0,
    repayments: 0,
    unwaived: 0,
    charged: new Map(),
    due: new Map(),
  }
  world.journal.set(ref, seen)
  const replies = await client
    .multi()
    .hgetall(keys.account(ref))
    .hgetall(keys.holdRows(ref))
    .xrange(keys.journal(ref), seen.cursor, '+')
    .exec()
  const [account, open, entries] = (replies ?? []).map(([, value]) => value) as [
    Record<string, string>,
    Record<string, string>,
    readonly JournalEntry[],
  ]
  const { granted, spent, reserved, owed, waived } = account
  const available = Number(granted ?? 0) - Number(spent ?? 0) - Number(reserved ?? 0)
  const balance = available + Number(reserved ?? 0)
  for (const entry of entries) checkEntry(world, seen, entry)
  for (const [id, value] of Object.entries(open)) {
    const life = world.lives.find(({ hold }) => hold.id === id)
    const amount = Number(value.split(' ')[0])
    const ceiling = amount + (seen.charged.get(id) ?? 0)
    if (life && amount > 0 && ceiling > life.granted)
      throw new Error(`opened again for ${ceiling} of ${life.granted}`)
  }
  const holds = Object.values(open).map(parseHoldRow)
  const held = Object.values(open).reduce((sum, value) => sum + Number(value.split(' ')[0]), 0)
  const charged = [...seen.charged.values()].reduce((sum, charge) => sum + charge, 0)
  const left = parseAllowance(account.allowance)?.left ?? 0
  const windows = Math.floor((Date.now() - world.begunMs) / lengths[0]) + 2
  const problems = [
    ...wrongWindows(account, Object.values(open), seen),
    left !== seen.left && 'the allowance is not what was given less what was taken from it',
    left > balance && 'the allowance is more than the balance',
    seen.drawn > windows * mostGiven && `${seen.drawn} from allowances in ${windows} windows`,
    available < 0 && 'negative',
    balance !== seen.sum && 'balance is not the sum of the journal',
    Number(spent ?? 0) !== seen.spent && 'spent is not the sum of charges, corrections and refunds',
    Number(spent ?? 0) + Number(owed ?? 0) + Number(waived ?? 0) !==
      charged - (world.refunded.get(ref) ?? 0) && 'spent is not what was used, less the refunds',
    Number(owed ?? 0) !== seen.owed && 'owed is not what charges owe less repayments',
    Number(waived ?? 0) !== seen.waived && 'waived is not what charges waive',
    seen.owed < 0 && 'more was repaid than owed',
    seen.owed > 0 && available !== 0 && 'something is available and not taken by what is owed',
    Number(reserved ?? 0) !== held && 'reserved is not the sum of the open holds',
    ['open', `open:key_${ref}`].some((one) => Number(account[one] ?? 0) !== holds.length) &&
      'a count of the open holds is wrong',
    holds.some(({ deadlineMs }) => deadlineMs < Number(account.next_expiry ?? 0)) &&
      'a lease ends before anybody looks',
    (world.credited.get(ref) ?? 0) + seen.given - charged !== seen.sum - seen.owed - seen.waived &&
      'top-ups and allowances less what was used are not the balance less what is owed and was waived',
  ].filter(Boolean)
  if (problems.length > 0) throw new Error(problems.join('; '))
}

/** What happened to every hold: it has a mark or is open, and the journal has its charge. */
async function checkLives(t: Test, world: World, { client }: ScriptLink) {
  const wrong: unknown[] = []
  for (const { caller, hold, order, granted, checkpoint, reopened } of world.lives) {
    const { ref } = caller
    const [mark, open] = await Promise.all([
      client.hget(keys.settled(ref, hourOfHold(hold.id)), hold.id),
      client.hget(keys.holdRows(ref), hold.id),
    ])
    const inJournal = world.journal.get(ref)?.charged.get(hold.id) ?? 0
    const [kind, charge] = (mark ?? '').split(' ')
    const isRight = order
      ? kind === 's' && !open && Number(charge) === inJournal && inJournal === order.charge
      : kind === 'r'
        ? Number(charge) === inJournal && (reopened || inJournal === checkpoint)
        : open !== null && inJournal === 0
    if (!isRight)
      wrong.push({ id: hold.id, mark, open, inJournal, order, granted, checkpoint, reopened })
  }
  t.same(wrong, [])
  for (const { ref, id } of world.released) {
    t.equal(await client.hget(keys.settled(ref, hourOfHold(id)), id), 's 0 0')
  }
}

async function checkUsage(t: Test, world: World, { client }: ScriptLink, ref: string) {
  const orders = world.lives.flatMap(({ order, caller }) =>
    order && caller.ref === ref ? [order] : [],
  )
  const sum = (numbers: Iterable<number>) => [...numbers].reduce((all, one) => all + one, 0)
  const { charged, waived } = world.journal.get(ref) ?? {}
  const now = Math.floor(Date.now() / 1000)
  for (const bucket of ['hour', 'day'] as const) {
    const query = { from: now - 6 * 3600, to: now + 3600, bucket }
    const pieces: UsageRow[][] = await Readable.from(readUsagePieces(client, ref, query)).toArray()
    const rows = pieces.flat()
    const total = (name: keyof UsageRow) => sum(rows.map((row) => Number(row[name] ?? 0)))
    t.equal(total('cost'), sum(charged?.values() ?? []), `by ${bucket}: the charges of the journal`)
    t.equal(total('waived'), waived, 'and what was waived of them')
    t.equal(total('requests'), orders.length, 'a request counts once, reaped before or not')
    t.equal(total('prompt_tokens'), sum(pick(orders, 'prompt')))
    t.equal(total('cached_tokens'), sum(pick(orders, 'cached')))
    t.equal(total('completion_tokens'), sum(pick(orders, 'completion')))
  }
}

t.test(`whatever happens in whatever order, the money adds up (SEED=${seed})`, async (t) => {
  const server = await startRedis(t)
  const links = [await connectLink(t, server.socket), await connectLink(t, server.socket)] as const
  const [first, second] = [
    openGateway(links[0], -clocksApartMs),
    openGateway(links[1], clocksApartMs),
  ]
  const random = createRandom()
  const callers = [
    await makeAccount(links[0]),
    await makeAccount(links[0], { account: { plan: 'daily' }, key: { budget: '500 day' } }),
    await makeAccount(links[0], { account: { plan: 'weekly', budget: '900 week' } }),
  ]
  const journal = new Map<string, Seen>()
  const world: World = {
    lives: [],
    released: [],
    credited: new Map(),
    refunded: new Map(),
    payments: [],
    journal,
    begunMs: Date.now(),
  }
  // In the first second of a Redis nothing is reaped.
  await reapingStarted(links[0])
  const total = (pick: (seen: Seen) => number) =>
    [...journal.values()].reduce((sum, seen) => sum + pick(seen), 0)
  const isReopened = () => world.lives.some(({ reopened }) => reopened)
  const isRich = () =>
    isReopened() &&
    total(({ unwaived }) => unwaived) > 0 &&
    total(({ renewals }) => renewals) > 20 &&
    [...journal.values()].every((seen) => seen.debts > 0 && seen.repayments > 0)
  // Leases and windows end by the clock: a fast machine needs more steps until everything has happened.
  for (let i = 0; i < steps || (!isRich() && i < 10 * steps); i++) {
    const burst = random.below(4) === 0 ? 1 + random.below(6) : 1
    await Promise.all(
      Array.from({ length: burst }, () =>
        step(world, [first, second], callers, random, burst === 1),
      ),
    )
    for (const { ref } of callers) await check(world, links[0], ref)
  }
  t.ok(isReopened(), 'some holds were lost and opened again')
  for (const { ref } of callers) await check(world, links[0], ref)
  await checkLives(t, world, links[0])
  // At the end everything is settled: then the usage is known to the token.
  for (const life of world.lives) await settle(first, life, random)
  for (const { ref } of callers) {
    await check(world, links[0], ref)
    await checkUsage(t, world, links[0], ref)
    t.equal(await links[0].client.hget(keys.account(ref), 'reserved'), '0', 'nothing is held')
    const { debts = 0, repayments = 0, waived = 0 } = world.journal.get(ref) ?? {}
    t.ok(debts > 0 && repayments > 0, `${debts} debts, ${repayments} repayments`)
    t.ok(waived > 0, `${waived} waived`)
    const { differences } = await audit(auditPlace(links[0]), { ref })
    t.same(differences, [])
  }
  const renewals = total((seen) => seen.renewals)
  const drawn = total((seen) => seen.drawn)
  const counted = total((seen) => seen.counted.size)
  t.ok(renewals > 20 && drawn > 1000, `${renewals} renewals, ${drawn} paid by allowances`)
  t.ok(counted > 20, `${counted} windows of budgets`)
  for (const { windows } of [first, second]) t.ok(windows.learned > 0, 'it asked Redis')
  const unwaived = [...world.journal.values()].reduce((sum, seen) => sum + seen.unwaived, 0)
  t.ok(unwaived > 0, `${unwaived} times less was used than had been waived`)
  const corrections = [...world.journal.values()].reduce((sum, seen) => sum + seen.corrections, 0)
  t.ok(corrections > 0, `${corrections} corrections`)
  t.equal(world.refunded.size, callers.length, 'every account had refunds')
  t.ok(world.payments.length > 0, `${world.payments.length} payments`)
  await checkLives(t, world, links[0])
})
