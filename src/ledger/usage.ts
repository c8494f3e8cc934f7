// Usage sums for charts and books, for each hour or day, by model or by key, as settle.lua and the reaping counted them.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import type { List } from '../http/page.ts'
import { keys } from '../redis/keys.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import { fromWords, noTokens } from '../tokens/token-counts.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'
import { bucketsOf, secondsOf } from './usage-query.ts'
import type { UsageQuery } from './usage-query.ts'

export interface UsageRow {
  readonly object: 'billing.usage'
  readonly start: number
  readonly end: number
  /** Only where rows of several accounts are in one list. */
  readonly account_id?: string
  readonly model?: string
  readonly key_id?: string
  readonly requests: number
  readonly prompt_tokens: number
  /** Of the prompt. */
  readonly cached_tokens: number
  readonly completion_tokens: number
  readonly cost: number
  /** The part of `cost` that was waived in shadow mode. */
  readonly waived?: number
}

/** Always the whole list: its rows have no ids to use as a cursor. */
export type UsageList = List<UsageRow>

export interface UsageReading {
  /** Whose turn it takes: the account's by default. */
  readonly share?: string
  /** Fires when the client leaves. */
  readonly signal?: AbortSignal | undefined
}

/** A `UsageList` as JSON, made piece by piece, because it can have tens of thousands of rows. Waits for its turn: an account may ask for hundreds of lists at once. Stops when the signal fires. */
export function readUsage(
  redis: Redis,
  ref: string,
  query: UsageQuery,
  { share = ref, signal }: UsageReading = {},
): Promise<string> {
  return lists.run(share, async () => {
    const parts: string[] = []
    signal?.throwIfAborted()
    for await (const rows of readUsagePieces(redis, ref, query)) {
      signal?.throwIfAborted()
      parts.push(JSON.stringify(rows).slice(1, -1))
    }
    return `{"object":"list","data":[${parts.join(',')}],"first_id":null,"last_id":null,"has_more":false}`
  })
}

/** The rows, the oldest first. */
export async function* readUsagePieces(
  redis: Redis,
  ref: string,
  query: UsageQuery,
): AsyncGenerator<readonly UsageRow[]> {
  const { bucket, groupBy } = query
  for await (const { number, sums } of readSums(redis, ref, query)) {
    yield rowsOf(sums, { number, bucket, groupBy })
  }
}

export interface BucketSums {
  readonly number: number
  /** By group. */
  readonly sums: ReadonlyMap<string, UsageSums>
}

const readsAtOnce = 4
/** Whole lists in memory: one of an account, and so many in all. */
const lists = new FairTurns(readsAtOnce)
/** Calls to Redis of lists, exports and the operator's walks. Runs inside of `lists`: one queue for both would wait for itself. */
const reads = new FairTurns(readsAtOnce)
/** So many fields are read at a time; each is about a microsecond of work, here and in Redis. A bucket has one for each model and key, and is read whole. */
const pieceFields = 2000

export async function* readSums(
  redis: Redis,
  ref: string,
  query: UsageQuery,
): AsyncGenerator<BucketSums> {
  const numbers = bucketsOf(query)
  const key = query.bucket === 'hour' ? keys.usageHour : keys.usageDay
  const names = numbers.map((number) => key(ref, number))
  const sizes = await reads.run(ref, () =>
    asked(Promise.all(names.map((name) => redis.hlen(name)))),
  )
  for (const piece of piecesOf(sizes)) {
    const read = () => Promise.all(piece.map((at) => redis.hgetall(names[at] ?? '')))
    const found = await reads.run(ref, () => asked(read()))
    for (const [i, at] of piece.entries()) {
      const sums = groupsIn(found[i] ?? {}, query)
      if (sums.size > 0) yield { number: numbers[at] ?? 0, sums }
    }
  }
}

/** The places of the buckets that have something, in pieces that are read together. */
function piecesOf(sizes: readonly number[]): readonly (readonly number[])[] {
  const pieces: number[][] = []
  let fields = Infinity
  for (const [at, size] of sizes.entries()) {
    if (size === 0) continue
    if (fields + size > pieceFields) {
      pieces.push([])
      fields = 0
    }
    pieces.at(-1)?.push(at)
    fields += size
  }
  return pieces
}

export interface UsageSums extends TokenCounts {
  readonly requests: number
  readonly cost: number
  readonly waived: number
}

export const noUsage: UsageSums = { requests: 0, ...noTokens, cost: 0, waived: 0 }

function groupsIn(
  fields: Readonly<Record<string, string>>,
  { groupBy, ...filter }: UsageQuery,
): ReadonlyMap<string, UsageSums> {
  const groups = new Map<string, UsageSums>()
  for (const [field, value] of Object.entries(fields)) {
    // `<model>|<key id>`, or `<model>|<key id>|waived` for the part that was waived.
    const [encoded = '', key = ''] = field.split('|')
    const model = decodeURIComponent(encoded)
    if (filter.model !== undefined && filter.model !== model) continue
    if (filter.key !== undefined && filter.key !== key) continue
    const group = groupBy === 'model' ? model : groupBy === 'key' ? key : ''
    groups.set(group, addUsage(groups.get(group) ?? noUsage, sumsIn(value)))
  }
  return groups
}

export interface RowsOptions extends Pick<UsageQuery, 'bucket' | 'groupBy'> {
  readonly number: number
  readonly accountId?: string
}

export function rowsOf(
  sums: ReadonlyMap<string, UsageSums>,
  { number, bucket, groupBy, accountId }: RowsOptions,
): readonly UsageRow[] {
  const start = number * secondsOf[bucket]
  return [...sums]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([group, { requests, prompt, cached, completion, cost, waived }]) => ({
      object: 'billing.usage',
      start,
      end: start + secondsOf[bucket],
      ...(accountId !== undefined && { account_id: accountId }),
      ...(groupBy === 'model' && { model: group }),
      ...(groupBy === 'key' && { key_id: group }),
      requests,
      prompt_tokens: prompt,
      cached_tokens: cached,
      completion_tokens: completion,
      cost,
      ...(waived !== 0 && { waived }),
    }))
}

/** `<requests> <prompt> <cached> <completion> <cost>`; what was waived is the sixth word of a field of its own. */
function sumsIn(value: string): UsageSums {
  const [requests, ...words] = value.split(' ')
  const [cost = 0, waived = 0] = words.slice(3)
  const counts = { requests: Number(requests), ...fromWords(words) }
  return { ...counts, cost: Number(cost), waived: Number(waived) }
}

export function addUsage(a: UsageSums, b: UsageSums): UsageSums {
  return {
    requests: a.requests + b.requests,
    prompt: a.prompt + b.prompt,
    cached: a.cached + b.cached,
    completion: a.completion + b.completion,
    cost: a.cost + b.cost,
    waived: a.waived + b.waived,
  }
}
