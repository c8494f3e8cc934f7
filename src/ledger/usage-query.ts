// The query of GET …/usage, for a customer's and for the operator's routes alike, and the buckets that it asks for.

import { oneOf, parseSeconds } from '../http/query.ts'
import { invalid, invalidParameter } from '../http/refusals.ts'
import { parseOrigin } from './transaction-query.ts'

export interface UsageQuery extends UsageFilter {
  readonly groupBy?: 'model' | 'key'
}

export interface UsageFilter {
  /** Unix seconds. All buckets that overlap [from, to) count, each as a whole. */
  readonly from: number
  readonly to: number
  readonly bucket: 'hour' | 'day'
  /** Model id as configured. */
  readonly model?: string
  /** Id of a key. */
  readonly key?: string
}

export const secondsOf = { hour: 3600, day: 86_400 } as const
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
  // `to` is excluded, and this second must count.
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
