// An entry of the journal as a transaction: what customers and operators are shown of it. A transaction's id is its
// stream id rewritten, so ids sort as the changes happened.

import type { CreditOrder } from './orders.ts'
import { parsePrice, showPrice } from './price.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { fromWords, toUsage } from '../tokens/token-counts.ts'
import type { TokenCounts, UsageFields } from '../tokens/token-counts.ts'

/**
 * `topup`, `adjustment` and `allowance` change `granted`; all others change `spent`. `allowance`: the plan's allowance was
 * renewed, changed with the plan, or taken back. `correction`: a gateway was away longer than a lease, its request was
 * charged by the last checkpoint, and this is the difference to what was used. `refund`: the operator gave back what was
 * spent. `repayment`: a debt was paid from tokens that became available.
 */
export const transactionTypes = [
  'topup',
  'charge',
  'correction',
  'adjustment',
  'refund',
  'repayment',
  'allowance',
] as const

export type TransactionType = (typeof transactionTypes)[number]

export interface Transaction {
  readonly id: string
  readonly object: 'billing.transaction'
  readonly type: TransactionType
  /** Of a charge, what was paid (negative). With `owed` and `waived`, it is what this transaction charges. */
  readonly amount: number
  readonly balance_after: number
  readonly model?: string
  readonly key_id?: string
  /** The price that was applied. `charged_before` − `amount` + `owed` + `waived` is what `usage` costs by it. */
  readonly price?: TransactionPrice
  /** Of a correction: of the whole request. */
  readonly usage?: TransactionUsage
  /** Of a correction: what the request's earlier transactions had charged, owed and waived. */
  readonly charged_before?: number
  readonly estimated?: boolean
  /** The ledger ended the answer: its money ran out, or its hold was lost. */
  readonly cut?: boolean
  /** Balance tokens that were used and could not be paid then. */
  readonly owed?: number
  /** The part of `amount` that the allowance paid; negative where a correction gave it back. */
  readonly allowance?: number
  /** Balance tokens that were used in shadow mode, could not be paid then, and will not be. Negative in a correction. */
  readonly waived?: number
  /** Balance tokens that a backend reported beyond what the request can have used: not charged. */
  readonly implausible?: number
  readonly request_id?: string
  readonly session_id?: string
  readonly message_id?: string
  /** Of a top-up: the payment. */
  readonly reference?: string
  readonly note?: string
  readonly created_at: number
}

export interface TransactionUsage extends UsageFields {
  readonly cached_tokens: number
}

/** Balance tokens for one token of the model, and for a request. */
export interface TransactionPrice {
  readonly input: number
  readonly output: number
  readonly cached_input: number
  readonly request: number
}

/** An entry as Redis has it: its id, then fields and values in turn. */
export type JournalEntry = readonly [id: string, fields: readonly string[]]

/** Compares stream ids as numbers, not as texts. */
export function compareIds(a: string, b: string): number {
  const [aMs = 0, aSequence = 0] = a.split('-').map(Number)
  const [bMs = 0, bSequence = 0] = b.split('-').map(Number)
  return aMs - bMs || aSequence - bSequence
}

/** Whether stream id `a` comes after `b` in the order of reading. */
export const beyond = (isUpwards: boolean) => (a: string, b: string) =>
  isUpwards ? compareIds(a, b) > 0 : compareIds(a, b) < 0

/** `1795200000000-1` as `txn_` and 32 hex digits. */
export function transactionId(id: string): string {
  const [ms = '0', sequence = '0'] = id.split('-')
  return `txn_${hex16(ms)}${hex16(sequence)}`
}

const hex16 = (decimal: string) => BigInt(decimal).toString(16).padStart(16, '0')

export const lowestId = '0-1'
const highestId = '18446744073709551615-18446744073709551614'

const transactionPattern = /^txn_([0-9a-f]{16})([0-9a-f]{16})$/

export function isTransactionId(text: string): boolean {
  return transactionPattern.test(text)
}

/** Redis refuses to read from beyond either end, so such an id becomes the lowest or the highest one. */
export function streamId(id: string): string {
  const match = transactionPattern.exec(id)
  if (!match || /^txn_0+$/.test(id)) return lowestId
  if (/^txn_f+$/.test(id)) return highestId
  return `${BigInt(`0x${match[1]}`)}-${BigInt(`0x${match[2]}`)}`
}

export function fieldsOf([, fields]: JournalEntry): Readonly<Record<string, string>> {
  const pairs: Record<string, string> = {}
  for (let i = 0; i < fields.length; i += 2) pairs[fields[i] ?? ''] = fields[i + 1] ?? ''
  return pairs
}

export function toTransaction(entry: JournalEntry): Transaction {
  const fields = fieldsOf(entry)
  const { amount, balance, hold, model, key, usage, flags = '' } = fields
  const { before, owed, allowance, waived, implausible } = fields
  const { price, ...meta } = parseMeta(fields.meta)
  return {
    id: transactionId(entry[0]),
    object: 'billing.transaction',
    type: typeOf(fields),
    amount: Number(amount),
    balance_after: Number(balance),
    ...(model !== undefined && { model: decodeURIComponent(model) }),
    ...(key !== undefined && { key_id: key }),
    ...(price !== undefined && { price: showPrice(parsePrice(price)) }),
    ...(usage !== undefined && { usage: showUsage(usageIn(usage)) }),
    ...(before !== undefined && { charged_before: Number(before) }),
    ...(model !== undefined && { estimated: flags.includes('e') }),
    ...(flags.includes('c') && { cut: true }),
    ...(owed !== undefined && { owed: Number(owed) }),
    ...(allowance !== undefined && allowance !== '0' && { allowance: Number(allowance) }),
    ...(waived !== undefined && { waived: Number(waived) }),
    ...(implausible !== undefined && { implausible: Number(implausible) }),
    // A hold has the id of its request.
    ...(hold !== undefined && { request_id: `req_${hold}` }),
    ...meta,
    created_at: Math.floor(Number.parseInt(entry[0], 10) / 1000),
  }
}

/** `type` says which sum an entry changes, and `as` what customers are told. Old journals have corrections of type `adjustment`, which changed `granted`. */
export function typeOf({ type, as }: Readonly<Record<string, string>>): TransactionType {
  const find = (word: string | undefined) => transactionTypes.find((one) => one === word)
  return find(as) ?? find(type) ?? 'charge'
}

/** `<prompt> <cached> <completion>`. */
export function usageIn(text: string): TokenCounts {
  return fromWords(text.split(' '))
}

function showUsage(counts: TokenCounts): TransactionUsage {
  return { ...toUsage(counts), cached_tokens: counts.cached }
}

interface Meta {
  readonly request_id?: string
  readonly session_id?: string
  readonly message_id?: string
  readonly reference?: string
  readonly note?: string
  readonly price?: string
}

function parseMeta(text: string | undefined): Meta {
  const meta: Meta = JSON.parse(text ?? '{}')
  const { request_id, session_id, message_id, reference, note, price } = meta
  // On the way through text, fields that are undefined drop out.
  const known = { request_id, session_id, message_id, reference, note, price }
  return JSON.parse(JSON.stringify(known))
}

/** The transaction of a credit that was just made, from its reply and without reading the journal. */
export function creditTransaction({ type, meta }: CreditOrder, reply: Reply): Transaction {
  const [amount, balance] = [`${numberAt(reply, 3)}`, `${numberAt(reply, 4)}`]
  const fields = Object.entries({ type, amount, balance, meta }).flat()
  return toTransaction([textAt(reply, 2), fields])
}
