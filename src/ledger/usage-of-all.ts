// GET /admin/usage: the usage of all accounts. With `group_by=account` or `key`, rows come in pages of some accounts
// each. With `group_by=model`, or without it, rows are sums over all accounts, which are read a few at a time. All such
// walks of a process take turns, a few accounts each, and a walk stops when its caller leaves.

import type { Redis } from '../redis/client.ts'
import { oneOf } from '../http/query.ts'
import { parseIdPage } from '../http/page.ts'
import { invalidParameter } from '../http/refusals.ts'
import { FairTurns, operatorTurn } from '../sharing/fair-turns.ts'
import { bucketsOf, parseUsageFilter, usageQuery } from './usage-query.ts'
import type { UsageFilter } from './usage-query.ts'
import { addUsage, noUsage, readSums, rowsOf } from './usage.ts'
import type { UsageList, UsageRow, UsageSums } from './usage.ts'
import { readAccounts, refsInGroups, walkAccounts } from './walk.ts'
import type { ListedAccount } from './walk.ts'

export interface UsageOfAllQuery extends UsageFilter {
  readonly groupBy?: 'account' | 'key' | 'model'
  /** How many accounts a page has. */
  readonly limit: number
  /** An account's id: the page begins behind it. */
  readonly after?: string
}

export const usageOfAllQuery = [...usageQuery, 'limit', 'after'] as const

export function parseUsageOfAllQuery(query: URLSearchParams): UsageOfAllQuery {
  const groupBy = oneOf(query, 'group_by', ['account', 'key', 'model'])
  const { limit, after } = parseIdPage(query, 'acct')
  const wanted = { ...parseUsageFilter(query), groupBy, limit, after }
  if (!isPaged(wanted) && (query.has('limit') || query.has('after')))
    throw invalidParameter('limit', 'Only "group_by=account" and "group_by=key" have pages.')
  return wanted
}

/** Stops when the signal fires, between two groups of accounts. */
export async function readUsageOfAll(
  redis: Redis,
  query: UsageOfAllQuery,
  signal?: AbortSignal,
): Promise<UsageList> {
  if (isPaged(query)) return readPage(redis, query)
  const data: UsageRow[] = []
  for await (const rows of sumAccounts(redis, query)) {
    signal?.throwIfAborted()
    // No spread: there may be more rows than a call takes arguments.
    for (const row of rows) data.push(row)
  }
  return { object: 'list', data, first_id: null, last_id: null, has_more: false }
}

/** All rows, in pieces. Some pieces are empty: at each, a reader that has left ends the work, even where no rows come. */
export async function* readPiecesOfAll(
  redis: Redis,
  query: UsageOfAllQuery,
): AsyncGenerator<readonly UsageRow[]> {
  if (!isPaged(query)) return yield* sumAccounts(redis, query)
  for await (const accounts of walkAccounts(redis, accountsOfPiece, query.after)) {
    for (const account of accounts) {
      yield []
      yield* rowsOfAccount(redis, query, account)
    }
  }
}

const isPaged = ({ groupBy }: UsageOfAllQuery) => groupBy === 'account' || groupBy === 'key'

const accountsOfPiece = 100
/** Buckets that one page reads at most, if it has more than one account. */
const mostBuckets = 2000

async function readPage(redis: Redis, query: UsageOfAllQuery): Promise<UsageList> {
  const buckets = Math.max(1, bucketsOf(query).length)
  const limit = Math.max(1, Math.min(query.limit, Math.floor(mostBuckets / buckets)))
  const { accounts, hasMore } = await readAccounts(redis, query.after, limit)
  const data: UsageRow[] = []
  for (const account of accounts)
    for await (const rows of rowsOfAccount(redis, query, account)) data.push(...rows)
  const [firstId, lastId] = [accounts[0]?.id ?? null, accounts.at(-1)?.id ?? null]
  return { object: 'list', data, first_id: firstId, last_id: lastId, has_more: hasMore }
}

async function* rowsOfAccount(
  redis: Redis,
  { groupBy: by, ...filter }: UsageOfAllQuery,
  { id: accountId, ref }: ListedAccount,
): AsyncGenerator<readonly UsageRow[]> {
  const groupBy = by === 'key' ? by : undefined
  const { bucket } = filter
  for await (const { number, sums } of readSums(redis, ref, { ...filter, groupBy })) {
    yield rowsOf(sums, { number, bucket, groupBy, accountId })
  }
}

/** Walks over all accounts take turns, each with a few accounts at a time. */
const walks = new FairTurns(1)
const accountsAtOnce = 2

/** Keeps only the result in memory: a row for each bucket and model. */
async function* sumAccounts(
  redis: Redis,
  { groupBy: by, ...filter }: UsageOfAllQuery,
): AsyncGenerator<readonly UsageRow[]> {
  const groupBy = by === 'model' ? by : undefined
  const buckets = new Map<number, Map<string, UsageSums>>(
    bucketsOf(filter).map((number) => [number, new Map()]),
  )
  const add = async (ref: string) => {
    for await (const { number, sums } of readSums(redis, ref, { ...filter, groupBy })) {
      const groups = buckets.get(number)
      for (const [group, more] of sums)
        groups?.set(group, addUsage(groups.get(group) ?? noUsage, more))
    }
  }
  for await (const refs of refsInGroups(redis, accountsAtOnce)) {
    await walks.run(operatorTurn, () => Promise.all(refs.map(add)))
    yield []
  }
  const { bucket } = filter
  yield [...buckets].flatMap(([number, sums]) => rowsOf(sums, { number, bucket, groupBy }))
}
