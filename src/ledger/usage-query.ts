// The query of GET …/usage, for a customer's and for the operator's route alike.

import { GatewayError } from '../errors.ts'
import type { UsageQuery } from './usage.ts'
import { single } from '../http/page.ts'

export const usageQuery = ['from', 'to', 'bucket', 'group_by'] as const

const hourS = 3600

/** `?from&to&bucket=hour|day&group_by=model|key`, Unix seconds; the last 24 hours by default. */
export function parseUsageQuery(query: URLSearchParams): UsageQuery {
  const nowS = Math.floor(Date.now() / 1000)
  const to = parseSeconds(query, 'to') ?? nowS
  const from = parseSeconds(query, 'from') ?? to - 24 * hourS
  const bucket = oneOf(query, 'bucket', ['hour', 'day'] as const)
  const groupBy = query.has('group_by')
    ? oneOf(query, 'group_by', ['model', 'key'] as const)
    : undefined
  if (from > to) throw refuse('from', '"from" must not be after "to".')
  return { from, to, bucket, groupBy }
}

function parseSeconds(query: URLSearchParams, name: string): number | undefined {
  const text = single(query, name)
  if (text === undefined) return undefined
  if (!/^\d{1,11}$/.test(text)) throw refuse(name, `"${name}" must be Unix seconds.`)
  return Number(text)
}

function oneOf<T extends string>(
  query: URLSearchParams,
  name: string,
  values: readonly [T, ...T[]],
): T {
  const text = single(query, name) ?? values[0]
  const found = values.find((value) => value === text)
  if (!found) throw refuse(name, `"${name}" must be ${values.join(' or ')}.`)
  return found
}

function refuse(param: string, message: string): GatewayError {
  return new GatewayError('invalid_parameter', { param, message })
}
