// Usage sums for charts, for each hour or day, by model or by key, as settle.lua and the reaping counted them.

import type { Redis } from 'ioredis'
import { asked } from '../redis/asked.ts'
import { GatewayError } from '../errors.ts'
import type { List } from '../http/page.ts'
import { keys } from '../redis/redis.ts'

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
}

/** Always the whole list: its rows have no ids to use as a cursor. */
export type UsageList = List<UsageRow>

const secondsOf = { hour: 3600, day: 86_400 } as const
const maxBuckets = 1000

export async function readUsage(redis: Redis, ref: string, query: UsageQuery): Promise<UsageList> {
  const { from, to, bucket, groupBy } = query
  const seconds = secondsOf[bucket]
  const first = Math.floor(from / seconds)
  const count = Math.floor(to / seconds) - first + 1
  if (count > maxBuckets) {
    throw new GatewayError('invalid_parameter', {
      param: 'from',
      message: `That is more than ${maxBuckets} buckets. Ask for a shorter time or for bucket=day.`,
    })
  }
  const numbers = Array.from({ length: Math.max(0, count) }, (_, i) => first + i)
  const key = bucket === 'hour' ? keys.usageHour : keys.usageDay
  const read = (number: number) => redis.hgetall(key(ref, number))
  const found = await asked(Promise.all(numbers.map(read)))
  const data = found.flatMap((fields, i) => rowsOf(fields, (first + i) * seconds, seconds, groupBy))
  return { object: 'list', data, first_id: null, last_id: null, has_more: false }
}

interface Sums {
  requests: number
  prompt: number
  completion: number
  cost: number
}

/** Fields are `<model>|<key id>`, values `<requests> <prompt> <cached> <completion> <cost>`. */
function rowsOf(
  fields: Readonly<Record<string, string>>,
  start: number,
  seconds: number,
  groupBy: UsageQuery['groupBy'],
): readonly UsageRow[] {
  const groups = new Map<string, Sums>()
  for (const [field, value] of Object.entries(fields)) {
    const [model = '', keyId = ''] = field.split('|')
    const [requests = 0, prompt = 0, , completion = 0, cost = 0] = value.split(' ').map(Number)
    const group = groupBy === 'model' ? decodeURIComponent(model) : groupBy === 'key' ? keyId : ''
    const sums = groups.get(group) ?? { requests: 0, prompt: 0, completion: 0, cost: 0 }
    sums.requests += requests
    sums.prompt += prompt
    sums.completion += completion
    sums.cost += cost
    groups.set(group, sums)
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
    }))
}
