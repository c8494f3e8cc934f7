// The journal as transactions: an entry for each change of the balance; old entries are in the archive, all others in
// Redis' stream. A transaction's id is its stream id rewritten, so ids sort as the changes happened.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { directionOf, listOf } from '../http/page.ts'
import type { List, Page } from '../http/page.ts'
import { keys } from '../redis/redis.ts'
import type { CreditOrder } from './orders.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import { fromWords, toUsage } from '../tokens/token-counts.ts'
import type { UsageFields } from '../tokens/token-counts.ts'

export interface Transaction {
  readonly id: string
  readonly object: 'billing.transaction'
  /** `repayment`: a debt was paid from what had become available. `allowance`: it was renewed. */
  readonly type: 'topup' | 'charge' | 'adjustment' | 'repayment' | 'allowance'
  /** Of a charge, what was paid (negative). What was paid and `owed` together are what was used. */
  readonly amount: number
  readonly balance_after: number
  readonly model?: string
  readonly usage?: TransactionUsage
  readonly estimated?: boolean
  /** The money ran out in the middle of the answer. */
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
  readonly note?: string
  readonly created_at: number
}

export interface TransactionUsage extends UsageFields {
  readonly cached_tokens?: number
}

export type TransactionList = List<Transaction>

/** An entry as Redis has it: its id, then fields and values in turn. */
export type JournalEntry = readonly [id: string, fields: readonly string[]]

/** Entries that were taken out of the stream. */
export interface OldEntries {
  /** Reads at most `count` entries beyond the cursor, which is excluded; upwards the oldest first, else the newest first. */
  read(ref: string, options: ReadOptions): Promise<readonly JournalEntry[]>
}

export interface ReadOptions {
  readonly isUpwards: boolean
  /** A stream id. */
  readonly cursor: string | undefined
  readonly count: number
}

export interface JournalPlace {
  readonly redis: Redis
  readonly archive: OldEntries | undefined
}

const pagesAtOnce = 4
/** A page may read from the archive, too, and an account may ask for hundreds at once: it waits for its turn. */
const pages = new FairTurns(pagesAtOnce)

export async function readTransactions(
  place: JournalPlace,
  ref: string,
  page: Page,
): Promise<TransactionList> {
  const { limit } = page
  const { cursor: id, isUpwards, isTurned } = directionOf(page)
  const cursor = id === undefined ? undefined : streamId(id)
  const options = { isUpwards, cursor, count: limit + 1 }
  const entries = await pages.run(ref, () => readEntries(place, ref, options))
  const data = entries.slice(0, limit).map(toTransaction)
  if (isTurned) data.reverse()
  return listOf(data, entries.length > limit)
}

/**
 * Reads across the border of stream and archive. The stream is read first: an entry that is archived meanwhile is then
 * seen twice, and not missed.
 */
export async function readEntries(
  { redis, archive }: JournalPlace,
  ref: string,
  options: ReadOptions,
): Promise<readonly JournalEntry[]> {
  const { isUpwards, cursor, count } = options
  const recent = await readStream(redis, ref, options)
  if (!archive) return recent
  if (isUpwards) {
    const old = await archive.read(ref, options)
    const lastOld = old.at(-1)?.[0]
    const rest = lastOld ? recent.filter(([id]) => compareIds(id, lastOld) > 0) : recent
    return [...old, ...rest].slice(0, count)
  }
  if (recent.length >= count) return recent
  const from = recent.at(-1)?.[0] ?? cursor
  const old = await archive.read(ref, { ...options, cursor: from })
  return [...recent, ...old].slice(0, count)
}

/** Compares stream ids as numbers, not as texts. */
export function compareIds(a: string, b: string): number {
  const [aMs = 0, aSequence = 0] = a.split('-').map(Number)
  const [bMs = 0, bSequence = 0] = b.split('-').map(Number)
  return aMs - bMs || aSequence - bSequence
}

export function readStream(
  redis: Redis,
  ref: string,
  { isUpwards, cursor, count }: ReadOptions,
): Promise<readonly JournalEntry[]> {
  const key = keys.journal(ref)
  return asked(
    isUpwards
      ? redis.xrange(key, cursor ? `(${cursor}` : '-', '+', 'COUNT', count)
      : redis.xrevrange(key, cursor ? `(${cursor}` : '+', '-', 'COUNT', count),
  )
}

/** `1795200000000-1` as `txn_` and 32 hex digits. */
export function transactionId(id: string): string {
  const [ms = '0', sequence = '0'] = id.split('-')
  return `txn_${hex16(ms)}${hex16(sequence)}`
}

const hex16 = (decimal: string) => BigInt(decimal).toString(16).padStart(16, '0')

const lowestId = '0-1'
const highestId = '18446744073709551615-18446744073709551614'

const transactionPattern = /^txn_([0-9a-f]{16})([0-9a-f]{16})$/

export function isTransactionId(text: string): boolean {
  return transactionPattern.test(text)
}

/** Redis refuses to read from beyond either end, so such an id becomes the lowest or the highest one. */
function streamId(id: string): string {
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
  const { type, amount, balance, model, usage, flags = '' } = fields
  const { owed, allowance, waived, implausible, meta } = fields
  return {
    id: transactionId(entry[0]),
    object: 'billing.transaction',
    type: typeOf(type),
    amount: Number(amount),
    balance_after: Number(balance),
    ...(model !== undefined && { model: decodeURIComponent(model) }),
    ...(usage !== undefined && { usage: usageIn(usage) }),
    ...(model !== undefined && { estimated: flags.includes('e') }),
    ...(flags.includes('c') && { cut: true }),
    ...(owed !== undefined && { owed: Number(owed) }),
    ...(allowance !== undefined && allowance !== '0' && { allowance: Number(allowance) }),
    ...(waived !== undefined && { waived: Number(waived) }),
    ...(implausible !== undefined && { implausible: Number(implausible) }),
    ...parseMeta(meta),
    created_at: Math.floor(Number.parseInt(entry[0], 10) / 1000),
  }
}

const types = ['topup', 'charge', 'adjustment', 'repayment', 'allowance'] as const

function typeOf(text: string | undefined): Transaction['type'] {
  return types.find((type) => type === text) ?? 'charge'
}

function usageIn(text: string): TransactionUsage {
  const counts = fromWords(text.split(' '))
  return { ...toUsage(counts), ...(counts.cached > 0 && { cached_tokens: counts.cached }) }
}

interface Meta {
  readonly request_id?: string
  readonly session_id?: string
  readonly message_id?: string
  readonly note?: string
}

function parseMeta(text: string | undefined): Meta {
  const { request_id, session_id, message_id, note }: Meta = JSON.parse(text ?? '{}')
  // On the way through text, fields that are undefined drop out.
  return JSON.parse(JSON.stringify({ request_id, session_id, message_id, note }))
}

/** The transaction of a credit that was just made, from its reply and without reading the journal. */
export function creditTransaction({ type, meta }: CreditOrder, reply: Reply): Transaction {
  const [amount, balance] = [`${numberAt(reply, 3)}`, `${numberAt(reply, 4)}`]
  const fields = Object.entries({ type, amount, balance, meta }).flat()
  return toTransaction([textAt(reply, 2), fields])
}
