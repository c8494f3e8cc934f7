// Adds up the entries of one account's journal, and compares the sums with what Redis has. Keeps the sums and the first
// differences, and no entries. Reads nothing itself.

import type { Price } from '../config/config.ts'
import { countIn, parseAllowance, parseCounted, wrongWindows } from './allowances.ts'
import type { CountedTokens } from './allowances.ts'
import { parseHoldRow } from './hold-rows.ts'
import { charge, parsePrice } from './price.ts'
import { fieldsOf, transactionId, usageIn } from './transaction.ts'
import type { JournalEntry } from './transaction.ts'

export interface Difference {
  readonly ref: string
  readonly account_id: string
  /** What does not add up: `granted`, `spent`, `balance_after of txn_…`, … */
  readonly what: string
  /** Null for a charge that cannot be read. */
  readonly expected: number | null
  readonly found: number
}

/** An account's row in Redis, or its hold rows. */
export type AccountRow = Readonly<Record<string, string>>

/** What an account has at one instant. */
export interface AccountState {
  readonly account: AccountRow
  readonly holdRows: AccountRow
}

/** The sums in the account's row that follow from the entries of its journal. */
const summed = ['granted', 'spent', 'owed', 'waived'] as const
const archived = [...summed, 'allowance'] as const

/** Of one account: a wrong price may make every entry of a long journal differ. All are counted, the first ones are kept. */
const mostKept = 100

export class Tally {
  readonly differences: Difference[] = []
  /** Also of those that were not kept. */
  differenceCount = 0
  entries = 0
  readonly #names: Pick<Difference, 'ref' | 'account_id'>
  readonly #sums = { granted: 0, spent: 0, owed: 0, waived: 0, allowance: 0, balance: 0 }
  /** In windows of budgets. */
  readonly #counted: CountedTokens = new Map()

  constructor(ref: string, { id = '' }: AccountRow) {
    this.#names = { ref, account_id: id }
  }

  /** Called when all entries of the archive were added: they must have what the account says was archived. */
  compareArchived(account: AccountRow): void {
    this.#expect('archived entries', numberIn(account, 'archived'), this.entries)
    for (const what of archived) {
      this.#expect(`archived ${what}`, numberIn(account, `archived_${what}`), this.#sums[what])
    }
  }

  /** The oldest first. */
  add(entries: readonly JournalEntry[]): void {
    for (const entry of entries) this.#addOne(entry)
    this.entries += entries.length
  }

  compare({ account, holdRows }: AccountState): void {
    const sums = this.#sums
    const stored = (field: string) => numberIn(account, field)
    const holds = Object.values(holdRows).map(parseHoldRow)
    const reserved = holds.reduce((sum, { amount }) => sum + amount, 0)
    for (const what of summed) this.#expect(what, sums[what], stored(what))
    this.#expect('allowance', sums.allowance, parseAllowance(account.allowance)?.left ?? 0)
    this.#expect('balance', sums.balance, stored('granted') - stored('spent'))
    this.#expect('reserved', reserved, stored('reserved'))
    const counted = holds.filter(({ deadlineMs }) => Number.isFinite(deadlineMs))
    this.#expect('open holds', counted.length, stored('open'))
    const available = stored('granted') - stored('spent') - stored('reserved')
    // While an account owes anything, whatever becomes available pays that first.
    if (available < 0 || stored('owed') > 0) this.#expect('available', 0, available)
    const byKey = new Map<string, number>()
    for (const { keyId } of holds) byKey.set(keyId, (byKey.get(keyId) ?? 0) + 1)
    for (const field of Object.keys(account)) {
      const keyId = field.startsWith('open:') ? field.slice('open:'.length) : undefined
      if (keyId !== undefined && !byKey.has(keyId)) byKey.set(keyId, 0)
    }
    for (const [keyId, count] of byKey)
      this.#expect(`open holds of ${keyId}`, count, stored(`open:${keyId}`))
    for (const { countedIn } of holds) countIn(this.#counted, countedIn)
    for (const { who, counted, used } of wrongWindows(account, this.#counted))
      this.#expect(`budget of ${who}`, counted, used)
  }

  #addOne(entry: JournalEntry): void {
    const sums = this.#sums
    const fields = fieldsOf(entry)
    const { type, balance, owed = '0', waived = '0', allowance = '0', budget } = fields
    const amount = Number(fields.amount)
    this.#expectPrice(entry[0], fields)
    sums.owed += Number(owed)
    sums.waived += Number(waived)
    sums.allowance -= Number(allowance)
    if (type === 'allowance') sums.allowance += amount
    if (budget) countIn(this.#counted, parseCounted(budget))
    if (type === 'repayment') sums.owed += amount
    if (type === 'charge' || type === 'repayment') sums.spent -= amount
    else sums.granted += amount
    this.#expectOf('balance_after', entry[0], sums.balance + amount, Number(balance))
    // One wrong balance must not make all later ones differ.
    sums.balance = Number(balance)
  }

  /** Expects that the charges of the request, up to this entry, add up to what its tokens cost by the price that was applied. Entries of older versions have no price. */
  #expectPrice(id: string, fields: AccountRow): void {
    const { amount, usage, owed = '0', waived = '0', before = '0', meta } = fields
    if (usage === undefined || meta === undefined) return
    const expected = chargeOf(usage, meta)
    if (expected === undefined) return
    const charged = Number(before) - Number(amount) + Number(owed) + Number(waived)
    this.#expectOf('charge', id, expected, charged)
  }

  /** Names the entry only if it differs: to write an id as hex takes as long as all the rest of an entry. */
  #expectOf(what: string, id: string, expected: number | null, found: number): void {
    if (expected !== found) this.#expect(`${what} of ${transactionId(id)}`, expected, found)
  }

  #expect(what: string, expected: number | null, found: number): void {
    if (expected === found) return
    this.differenceCount++
    if (this.differences.length >= mostKept) return
    this.differences.push({ ...this.#names, what, expected, found })
  }
}

function numberIn(row: AccountRow, field: string): number {
  return Number(row[field] ?? 0)
}

/** Undefined without a price. Null for what cannot be read: this is then a difference, and does not end the audit of all accounts. */
function chargeOf(usage: string, meta: string): number | null | undefined {
  try {
    const { price }: { readonly price?: string } = JSON.parse(meta)
    return price === undefined ? undefined : charge(priceOf(price), usageIn(usage))
  } catch {
    return null
  }
}

/** Prices in journals are few, and BigInts are dear to parse. */
const prices = new Map<string, Price>()
const mostPrices = 1000

function priceOf(text: string): Price {
  const known = prices.get(text)
  if (known) return known
  if (prices.size >= mostPrices) prices.clear()
  const price = parsePrice(text)
  prices.set(text, price)
  return price
}
