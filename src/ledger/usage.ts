// Usage sums for charts, for each hour or day, by model or by key, as settle.lua and the reaping counted them; and the
// query of GET …/usage, for a customer's and for the operator's route alike.

import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { single } from '../http/page.ts'
import type { List } from '../http/page.ts'
import { invalid, invalidParameter } from '../http/refusals.ts'
import { keys } from '../redis/redis.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import { fromWords, noTokens } from '../tokens/token-counts.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'

export interface UsageQuery {
  /** Unix seconds; whole buckets that touch [from, to]. */
  readonly from: number
  readonly to: number
  readonly bucket: 'hour' | 'day'
  readonly groupBy?: 'model' | 'key'
}

export interface UsageRow {
  readonly object: 'billing.usage'
  readonly start: number
  readonly end: number
  readonly model?: string
  readonly key_id?: string
  readonly requests: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly cost: number
  /** The part of `cost` that was waived in shadow mode. */
  readonly waived?: number
}

/** Always the whole list: its rows have no ids to use as a cursor. */
export type UsageList = List<UsageRow>

const secondsOf = { hour: 3600, day: 86_400 } as const
const maxBuckets = 1000

/** The parameters of the query, for its routes. */
export const usageQuery = ['from', 'to', 'bucket', 'group_by'] as const

/** `?from&to&bucket=hour|day&group_by=model|key`, Unix seconds; the last 24 hours by default. */
export function parseUsageQuery(query: URLSearchParams): UsageQuery {
  const nowS = Math.floor(Date.now() / 1000)
  const to = parseSeconds(query, 'to') ?? nowS
  const from = parseSeconds(query, 'from') ?? to - secondsOf.day
  const bucket = oneOf(query, 'bucket', ['hour', 'day'] as const)
  const groupBy = query.has('group_by')
    ? oneOf(query, 'group_by', ['model', 'key'] as const)
    : undefined
  if (from > to) throw invalid('from', 'must not be after "to"')
  return { from, to, bucket, groupBy }
}

function parseSeconds(query: URLSearchParams, name: string): number | undefined {
  const text = single(query, name)
  if (text === undefined) return undefined
  if (!/^\d{1,11}$/.test(text)) throw invalid(name, 'must be Unix seconds')
  return Number(text)
}

function oneOf<T extends string>(
  query: URLSearchParams,
  name: string,
  values: readonly [T, ...T[]],
): T {
  const text = single(query, name) ?? values[0]
  const found = values.find((value) => value === text)
  if (!found) throw invalid(name, `must be ${values.join(' or ')}`)
  return found
}

const readsAtOnce = 4
/** A read asks for up to a thousand rows, and an account may ask hundreds of times at once: it waits for its turn. */
const reads = new FairTurns(readsAtOnce)

export async function readUsage(redis: Redis, ref: string, query: UsageQuery): Promise<UsageList> {
  const { from, to, bucket, groupBy } = query
  const seconds = secondsOf[bucket]
  const first = Math.floor(from / seconds)
  const count = Math.floor(to / seconds) - first + 1
  if (count > maxBuckets) {
    const message = `That is more than ${maxBuckets} buckets. Ask for a shorter time or for bucket=day.`
    throw invalidParameter('from', message)
  }
  const numbers = Array.from({ length: Math.max(0, count) }, (_, i) => first + i)
  const key = bucket === 'hour' ? keys.usageHour : keys.usageDay
  const read = (number: number) => redis.hgetall(key(ref, number))
  const found = await reads.run(ref, () => asked(Promise.all(numbers.map(read))))
  const data = found.flatMap((fields, i) => rowsOf(fields, (first + i) * seconds, seconds, groupBy))
  return { object: 'list', data, first_id: null, last_id: null, has_more: false }
}

interface Sums extends TokenCounts {
  readonly requests: number
  readonly cost: number
  readonly waived: number
}

const noSums: Sums = { requests: 0, ...noTokens, cost: 0, waived: 0 }

/** A field is `<model>|<key id>`, with `|waived` behind it for what was waived. */
function groupOf(field: string, groupBy: UsageQuery['groupBy']): string {
  const [model = '', keyId = ''] = field.split('|')
  if (groupBy === 'model') return decodeURIComponent(model)
  return groupBy === 'key' ? keyId : ''
}

function rowsOf(
  fields: Readonly<Record<string, string>>,
  start: number,
  seconds: number,
  groupBy: UsageQuery['groupBy'],
): readonly UsageRow[] {
  const groups = new Map<string, Sums>()
  for (const [field, value] of Object.entries(fields)) {
    const group = groupOf(field, groupBy)
    groups.set(group, sum(groups.get(group) ?? noSums, sumsIn(value)))
  }
  return [...groups]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([group, sums]) => ({
      object: 'billing.usage',
      start,
      end: start + seconds,
      ...(groupBy === 'model' && { model: group }),
      ...(groupBy === 'key' && { key_id: group }),
      requests: sums.requests,
      prompt_tokens: sums.prompt,
      completion_tokens: sums.completion,
      cost: sums.cost,
      ...(sums.waived !== 0 && { waived: sums.waived }),
    }))
}

/** `<requests> <prompt> <cached> <completion> <cost>`; what was waived is the sixth word of a field of its own. */
function sumsIn(value: string): Sums {
  const [requests, ...words] = value.split(' ')
  const [cost = 0, waived = 0] = words.slice(3)
  const counts = { requests: Number(requests), ...fromWords(words) }
  return { ...counts, cost: Number(cost), waived: Number(waived) }
}

function sum(a: Sums, b: Sums): Sums {
  return {
    requests: a.requests + b.requests,
    prompt: a.prompt + b.prompt,
    cached: a.cached + b.cached,
    completion: a.completion + b.completion,
    cost: a.cost + b.cost,
    waived: a.waived + b.waived,
  }
}
