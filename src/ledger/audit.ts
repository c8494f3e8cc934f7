// Recomputes an account from its journal and its open holds, and lists what does not add up. Changes nothing.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/keys.ts'
import { countIn, parseAllowance, parseCounted, wrongWindows } from './allowances.ts'
import type { CountedTokens } from './allowances.ts'
import { parseHoldRow } from './hold-rows.ts'
import { readStream } from './journal.ts'
import type { OldEntries, ReadOptions } from './journal.ts'
import { charge, parsePrice } from './price.ts'
import { compareIds, fieldsOf, parseMeta, transactionId, usageIn } from './transaction.ts'
import type { JournalEntry } from './transaction.ts'

export interface Difference {
  readonly ref: string
  readonly account_id: string
  /** What does not add up: `granted`, `spent`, `balance_after of txn_…`, … */
  readonly what: string
  readonly expected: number
  readonly found: number
}

export interface AuditReport {
  readonly object: 'audit'
  readonly accounts: number
  readonly entries: number
  readonly differences: readonly Difference[]
}

export interface AuditOptions {
  readonly redis: Redis
  readonly archive: OldEntries | undefined
}

const pageSize = 1000
const maxTries = 5
/** Accounts that are looked at together. Each may have a page of its journal in memory. */
const atOnce = 8

/** All accounts, or one. */
export function audit(options: AuditOptions, ref?: string): Promise<AuditReport> {
  return asked(auditAll(options, ref))
}

async function auditAll(options: AuditOptions, ref: string | undefined): Promise<AuditReport> {
  const differences: Difference[] = []
  let accounts = 0
  let entries = 0
  for await (const refs of ref === undefined ? refsInGroups(options.redis, atOnce) : [[ref]]) {
    const results = await Promise.all(refs.map((one) => auditAccount(options, one)))
    accounts += results.length
    for (const result of results) {
      entries += result.entries
      differences.push(...result.differences)
    }
  }
  return { object: 'audit', accounts, entries, differences }
}

/** In order of creation; then those of deleted accounts, whose journals stay. */
async function* allRefs(redis: Redis): AsyncGenerator<string> {
  yield* refsIn(redis, keys.accounts)
  yield* refsIn(redis, keys.deletedAccounts)
}

async function* refsIn(redis: Redis, list: string): AsyncGenerator<string> {
  let from = '-'
  for (;;) {
    const some = redis.zrangebylex(list, from, '+', 'LIMIT', 0, pageSize)
    const members = await asked(some)
    for (const member of members) yield member.slice(member.indexOf(':') + 1)
    const last = members.at(-1)
    if (last === undefined) return
    from = `(${last}`
  }
}

/** The refs of all accounts, so many at a time: those of a group need not wait for each other's replies. */
export async function* refsInGroups(redis: Redis, size: number): AsyncGenerator<readonly string[]> {
  let group: string[] = []
  for await (const ref of allRefs(redis)) {
    group.push(ref)
    if (group.length < size) continue
    yield group
    group = []
  }
  if (group.length > 0) yield group
}

async function auditAccount(
  options: AuditOptions,
  ref: string,
): Promise<Sums & Pick<AuditReport, 'differences'>> {
  for (let i = 0; i < maxTries; i++) {
    const result = await tryAudit(options, ref)
    if (result) return result
  }
  throw new Error('The journal was archived while it was read, too often')
}

interface Sums {
  entries: number
  granted: number
  spent: number
  owed: number
  waived: number
  allowance: number
  balance: number
  /** In windows of budgets. */
  readonly counted: CountedTokens
}

/** The sums in the account's row that follow from the entries of its journal. */
const summed = ['granted', 'spent', 'owed', 'waived'] as const
const archived = [...summed, 'allowance'] as const

type Expect = (what: string, expected: number, found: number) => void

/** Resolves with undefined when the archive removed entries meanwhile. */
async function tryAudit({ redis, archive }: AuditOptions, ref: string) {
  const before = await redis.hgetall(keys.account(ref))
  const differences: Difference[] = []
  const expect: Expect = (what, expected, found) => {
    if (expected !== found) {
      differences.push({ ref, account_id: before.id ?? '', what, expected, found })
    }
  }
  const sums = noSums()
  const add = (entries: readonly JournalEntry[]) => addAll(entries, sums, expect)
  if (archive) {
    using reader = archive.open(ref)
    await addArchived((options) => reader.read(options), before.archived_last, add)
    compareArchived(before, sums, expect)
  } else {
    takeArchived(before, sums)
  }
  let last: string | undefined
  for await (const entries of pagesOf((options) => readStream(redis, ref, options))) {
    add(entries)
    last = entries.at(-1)?.[0] ?? last
  }
  const state = await snapshot(redis, ref, last)
  if (state.account.archived !== before.archived) return undefined
  add(state.entries)
  compare(state, sums, expect)
  const unread = archive ? undefined : before.archived_last
  for (const { who, counted, used } of wrongWindows(state.account, sums.counted, unread))
    expect(`budget of ${who}`, counted, used)
  return { ...sums, differences }
}

function noSums(): Sums {
  const numbers = { entries: 0, granted: 0, spent: 0, owed: 0, waived: 0, allowance: 0, balance: 0 }
  return { ...numbers, counted: new Map() }
}

/** All entries, the oldest first. */
async function* pagesOf(read: (options: ReadOptions) => Promise<readonly JournalEntry[]>) {
  let cursor: string | undefined
  for (;;) {
    const entries = await read({ isUpwards: true, cursor, count: pageSize })
    yield entries
    cursor = entries.at(-1)?.[0]
    if (entries.length < pageSize) return
  }
}

async function addArchived(
  read: (options: ReadOptions) => Promise<readonly JournalEntry[]>,
  last: string | undefined,
  add: (entries: readonly JournalEntry[]) => void,
): Promise<void> {
  if (!last) return
  for await (const entries of pagesOf(read)) {
    // An object may hold more entries than were taken out of the journal.
    add(entries.filter(([id]) => compareIds(id, last) <= 0))
  }
}

/** The objects of the archive are expected to have what Redis says was archived. */
function compareArchived(
  account: Readonly<Record<string, string>>,
  sums: Sums,
  expect: Expect,
): void {
  expect('archived entries', Number(account.archived ?? 0), sums.entries)
  for (const what of archived) {
    expect(`archived ${what}`, Number(account[`archived_${what}`] ?? 0), sums[what])
  }
}

function takeArchived(account: Readonly<Record<string, string>>, sums: Sums): void {
  for (const what of [...archived, 'balance'] as const) {
    sums[what] = Number(account[`archived_${what}`] ?? 0)
  }
}

function addAll(entries: readonly JournalEntry[], sums: Sums, expect: Expect): void {
  for (const entry of entries) {
    const fields = fieldsOf(entry)
    const { type, amount, balance, owed = '0', waived = '0', allowance = '0', budget } = fields
    expectPrice(entry[0], fields, expect)
    sums.owed += Number(owed)
    sums.waived += Number(waived)
    sums.allowance -= Number(allowance)
    if (type === 'allowance') sums.allowance += Number(amount)
    if (budget) countIn(sums.counted, parseCounted(budget))
    if (type === 'repayment') sums.owed += Number(amount)
    if (type === 'charge' || type === 'repayment') sums.spent -= Number(amount)
    else sums.granted += Number(amount)
    sums.entries++
    const expected = sums.balance + Number(amount)
    expect(`balance_after of ${transactionId(entry[0])}`, expected, Number(balance))
    // One wrong balance must not make all later ones differ.
    sums.balance = Number(balance)
  }
}

/** Expects that the request's charges up to this entry are, in sum, what its tokens cost by the price that was applied. Entries of older versions have no price. */
function expectPrice(id: string, fields: Readonly<Record<string, string>>, expect: Expect): void {
  const { amount, usage, owed = '0', waived = '0', before = '0', meta = '{}' } = fields
  const { price } = parseMeta(meta)
  if (price === undefined || usage === undefined) return
  const charged = Number(before) - Number(amount) + Number(owed) + Number(waived)
  expect(`charge of ${transactionId(id)}`, charge(parsePrice(price), usageIn(usage)), charged)
}

interface Snapshot {
  readonly account: Readonly<Record<string, string>>
  readonly holdRows: Readonly<Record<string, string>>
  readonly leases: number
  /** What was written since the journal was read. */
  readonly entries: readonly JournalEntry[]
}

/** Reads all at one instant. */
async function snapshot(redis: Redis, ref: string, after: string | undefined): Promise<Snapshot> {
  const replies = await redis
    .multi()
    .hgetall(keys.account(ref))
    .hgetall(keys.holdRows(ref))
    .zcard(keys.holdLeases(ref))
    .xrange(keys.journal(ref), after ? `(${after}` : '-', '+')
    .exec()
  const [account, holdRows, leases, entries] = (replies ?? []).map(([error, value]) => {
    if (error) throw error
    return value
  })
  return {
    account: account as Snapshot['account'],
    holdRows: holdRows as Snapshot['holdRows'],
    leases: Number(leases),
    entries: entries as readonly JournalEntry[],
  }
}

function compare({ account, holdRows, leases }: Snapshot, sums: Sums, expect: Expect): void {
  const stored = (field: string) => Number(account[field] ?? 0)
  const holds = Object.values(holdRows).map(parseHoldRow)
  const reserved = holds.reduce((sum, { amount }) => sum + amount, 0)
  for (const what of summed) expect(what, sums[what], stored(what))
  expect('allowance', sums.allowance, parseAllowance(account.allowance)?.left ?? 0)
  for (const { countedIn } of holds) countIn(sums.counted, countedIn)
  expect('balance', sums.balance, stored('granted') - stored('spent'))
  expect('reserved', reserved, stored('reserved'))
  expect('leases', holds.length, leases)
  const available = stored('granted') - stored('spent') - stored('reserved')
  // While an account owes anything, whatever becomes available pays that first.
  if (available < 0 || stored('owed') > 0) expect('available', 0, available)
  const byKey = new Map<string, number>()
  for (const { keyId } of holds) byKey.set(keyId, (byKey.get(keyId) ?? 0) + 1)
  for (const field of Object.keys(account)) {
    const keyId = field.startsWith('open:') ? field.slice('open:'.length) : undefined
    if (keyId !== undefined && !byKey.has(keyId)) byKey.set(keyId, 0)
  }
  for (const [keyId, count] of byKey)
    expect(`open holds of ${keyId}`, count, stored(`open:${keyId}`))
}
