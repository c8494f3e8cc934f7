// Usage sums for charts and books, for each hour or day, by model or by key, as settle.lua and the reaping counted them.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import type { List } from '../http/page.ts'
import { keys } from '../redis/keys.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import { fromWords, noTokens } from '../tokens/token-counts.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'
import { bucketsOf, secondsOf } from './usage-query.ts'
import type { UsageFilter, UsageQuery } from './usage-query.ts'

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

/** The oldest first. What is settled meanwhile is counted once or not at all, whatever moves from a day to its hours. */
export async function* readSums(
  redis: Redis,
  ref: string,
  query: UsageQuery,
): AsyncGenerator<BucketSums> {
  const read = bucketReader(redis, ref)
  const numbers = bucketsOf(query)
  if (query.bucket === 'day') {
    for await (const days of read('day', numbers)) yield* sumsOf(days, query)
    return
  }
  // Before its hours, because usage.lua moves sums from a day to them.
  for await (const days of read('day', [...new Set(numbers.map(dayOf))])) {
    const running = runningIn(days)
    const isUsed = new Map(days.map(([day, fields]) => [day, Object.keys(fields).length > 0]))
    const hours = numbers.filter((hour) => isUsed.get(dayOf(hour)))
    for await (const piece of read('hour', hours))
      yield* sumsOf(
        piece.flatMap((hour) => withRunning(hour, running)),
        query,
      )
  }
}

const dayOf = (hour: number) => Math.floor(hour / 24)

type SumFields = Readonly<Record<string, string>>
type Bucket = readonly [number: number, fields: SumFields]

/** Reads the hashes of buckets, in pieces. */
function bucketReader(redis: Redis, ref: string) {
  return async function* (
    bucket: UsageFilter['bucket'],
    numbers: readonly number[],
  ): AsyncGenerator<readonly Bucket[]> {
    const key = bucket === 'hour' ? keys.usageHour : keys.usageDay
    const names = numbers.map((number) => key(ref, number))
    const sizes = await reads.run(ref, () =>
      asked(Promise.all(names.map((name) => redis.hlen(name)))),
    )
    const fieldsOf = async (at: number): Promise<SumFields> =>
      sizes[at] === 0 ? {} : redis.hgetall(names[at] ?? '')
    for (const piece of piecesOf(sizes)) {
      const found = await reads.run(ref, () => asked(Promise.all(piece.map(fieldsOf))))
      yield piece.map((at, i) => [numbers[at] ?? 0, found[i] ?? {}] as const)
    }
  }
}

/** The places of the buckets, in pieces that are read together. */
function piecesOf(sizes: readonly number[]): readonly (readonly number[])[] {
  const pieces: number[][] = []
  let fields = Infinity
  for (const [at, size] of sizes.entries()) {
    if (fields + size > pieceFields) {
      pieces.push([])
      fields = 0
    }
    pieces.at(-1)?.push(at)
    fields += size
  }
  return pieces
}

/** What the hashes of days have of hours, by hour. */
function runningIn(days: readonly Bucket[]): ReadonlyMap<number, SumFields> {
  const found = new Map<number, Record<string, string>>()
  for (const [field, value] of days.flatMap(([, fields]) => Object.entries(fields))) {
    const words = value.split(' ')
    if (words.length <= sixWords) continue
    const hour = Number(words[sixWords])
    const running = found.get(hour) ?? {}
    found.set(hour, running)
    running[field] = words.slice(0, sixWords).join(' ')
  }
  return found
}

const shownHours = 35 * 24

/** What the day has of an hour takes the place of what has moved. */
function withRunning(
  [hour, fields]: Bucket,
  running: ReadonlyMap<number, SumFields>,
): readonly Bucket[] {
  const rest = running.get(hour)
  if (!rest) return [[hour, fields]]
  // The day keeps its part for longer than the hour's own hash lives: later, the sums would lack the rest.
  const isShown = hour > Date.now() / 3_600_000 - shownHours
  return isShown ? [[hour, { ...fields, ...rest }]] : []
}

function* sumsOf(buckets: readonly Bucket[], query: UsageQuery): Generator<BucketSums> {
  for (const [number, fields] of buckets) {
    const sums = groupsIn(fields, query)
    if (sums.size > 0) yield { number, sums }
  }
}

export interface UsageSums extends TokenCounts {
  readonly requests: number
  readonly cost: number
  readonly waived: number
}

export const noUsage: UsageSums = { requests: 0, ...noTokens, cost: 0, waived: 0 }

function groupsIn(
  fields: SumFields,
  { groupBy, ...filter }: UsageQuery,
): ReadonlyMap<string, UsageSums> {
  const groups = new Map<string, UsageSums>()
  for (const [field, value] of Object.entries(fields)) {
    // `<model>|<key id>|all`; of gateways from before, `<model>|<key id>` and, for what was waived, `…|waived`.
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

const sixWords = 6

/** `<requests> <prompt> <cached> <completion> <cost> <waived>`, and of a day an hour and six words more. */
function sumsIn(value: string): UsageSums {
  const words = value.split(' ')
  const sums = sumsOfWords(words)
  return words.length > sixWords ? addUsage(sums, sumsOfWords(words.slice(sixWords + 1))) : sums
}

function sumsOfWords([requests, ...words]: readonly string[]): UsageSums {
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
