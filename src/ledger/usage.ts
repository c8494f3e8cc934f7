// Usage sums for charts and books, for each hour or day, by model or by key, as settle.lua and the reaping counted them;
// and the query of GET …/usage, for a customer's and for the operator's routes alike.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import type { List } from '../http/page.ts'
import { oneOf, parseSeconds } from '../http/query.ts'
import { invalid, invalidParameter } from '../http/refusals.ts'
import { keys } from '../redis/redis.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import { fromWords, noTokens } from '../tokens/token-counts.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'
import { parseOrigin } from './transaction-query.ts'

export interface UsageQuery extends UsageFilter {
  readonly groupBy?: 'model' | 'key'
}

export interface UsageFilter {
  /** Unix seconds; whole buckets that have a part in [from, to). */
  readonly from: number
  readonly to: number
  readonly bucket: 'hour' | 'day'
  /** Model id as configured. */
  readonly model?: string
  /** Id of a key. */
  readonly key?: string
}

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

const secondsOf = { hour: 3600, day: 86_400 } as const
const maxBuckets = 1000

const usageFilters = ['from', 'to', 'bucket', 'model', 'key'] as const

/** The parameters of the query, for its routes. */
export const usageQuery = [...usageFilters, 'group_by'] as const

/** `?from&to&bucket=hour|day&group_by=model|key&model&key`, Unix seconds; the last 24 hours by default. */
export function parseUsageQuery(query: URLSearchParams): UsageQuery {
  const groupBy = oneOf(query, 'group_by', ['model', 'key'])
  return { ...parseUsageFilter(query), groupBy }
}

export function parseUsageFilter(query: URLSearchParams): UsageFilter {
  // This second, too.
  const to = parseSeconds(query, 'to') ?? Math.floor(Date.now() / 1000) + 1
  const from = parseSeconds(query, 'from') ?? Math.max(0, to - secondsOf.day)
  const bucket = oneOf(query, 'bucket', ['hour', 'day']) ?? 'hour'
  if (from > to) throw invalid('from', 'must not be after "to"')
  return { from, to, bucket, ...parseOrigin(query) }
}

/** The buckets of a query, as numbers of whole hours or days. Throws where there are too many. */
export function bucketsOf({ from, to, bucket }: UsageFilter): readonly number[] {
  const seconds = secondsOf[bucket]
  const first = Math.floor(from / seconds)
  const count = Math.ceil(to / seconds) - first
  if (count > maxBuckets) {
    const message = `That is more than ${maxBuckets} buckets. Ask for a shorter time or for bucket=day.`
    throw invalidParameter('from', message)
  }
  return Array.from({ length: Math.max(0, count) }, (_, i) => first + i)
}

export async function readUsage(redis: Redis, ref: string, query: UsageQuery): Promise<UsageList> {
  const data: UsageRow[] = []
  for await (const rows of readUsagePieces(redis, ref, query)) data.push(...rows)
  return { object: 'list', data, first_id: null, last_id: null, has_more: false }
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
/** An account may ask hundreds of times at once: it waits for its turn. */
const reads = new FairTurns(readsAtOnce)
/** Buckets that are read together. Each has a row for each model and key. */
const pieceBuckets = 50

export async function* readSums(
  redis: Redis,
  ref: string,
  query: UsageQuery,
): AsyncGenerator<BucketSums> {
  const numbers = bucketsOf(query)
  const key = query.bucket === 'hour' ? keys.usageHour : keys.usageDay
  const read = (number: number) => redis.hgetall(key(ref, number))
  for (let i = 0; i < numbers.length; i += pieceBuckets) {
    const some = numbers.slice(i, i + pieceBuckets)
    const found = await reads.run(ref, () => asked(Promise.all(some.map(read))))
    for (const [at, number] of some.entries()) {
      const sums = groupsIn(found[at] ?? {}, query)
      if (sums.size > 0) yield { number, sums }
    }
  }
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
    // With `|waived` behind it for what was waived.
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
