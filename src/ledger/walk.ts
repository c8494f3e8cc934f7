// Walks over all accounts in the order of their creation, the deleted ones among them, because their journals stay. An
// account that exists when a walk begins is met, whatever is created, charged or deleted meanwhile. The lists are read in
// pages from a cursor, so a page costs Redis the same at the beginning and at the end, and a walk can begin anywhere.
// SCAN is not used: it would go through all keys of every account, in an order that has no cursor to begin from again.

import { setTimeout as wait } from 'node:timers/promises'
import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/keys.ts'
import { readMembers } from '../redis/listing.ts'

export interface ListedAccount {
  readonly id: string
  readonly ref: string
}

const pageSize = 1000

/** `after`: an account's id; the walk begins behind it. */
export async function* walkAccounts(
  redis: Redis,
  size: number,
  after?: string,
): AsyncGenerator<readonly ListedAccount[]> {
  for (;;) {
    const { accounts, hasMore } = await readAccounts(redis, after, pageSize)
    for (let i = 0; i < accounts.length; i += size) yield accounts.slice(i, i + size)
    if (!hasMore) return
    after = accounts.at(-1)?.id
  }
}

/** The refs of all accounts, so many at a time: those of a group need not wait for each other's replies. */
export async function* refsInGroups(redis: Redis, size: number): AsyncGenerator<readonly string[]> {
  for await (const accounts of walkAccounts(redis, size)) yield accounts.map(({ ref }) => ref)
}

/** A rest is nine times as long as the work before it, but at most this long: most of longer work is waiting for a store. */
const longestRestMs = 20

/** The same for work that no caller waits for. After each group it rests, so that requests get nine tenths of the time. */
export async function* refsWithRests(
  redis: Redis,
  size: number,
  rest: (ms: number) => Promise<unknown> = (ms) => wait(ms, undefined, { ref: false }),
): AsyncGenerator<readonly string[]> {
  for await (const refs of refsInGroups(redis, size)) {
    const beganAt = performance.now()
    yield refs
    await rest(Math.min(longestRestMs, 9 * (performance.now() - beganAt)))
  }
}

/** The accounts behind `after`, in order of creation. */
export async function readAccounts(redis: Redis, after: string | undefined, limit: number) {
  const wanted = { cursor: after, isUpwards: true, count: limit + 1 }
  // One after the other: an account that is deleted is put into the second list before it leaves the first one. In a
  // Cluster, the lists lie on two primaries, and the second one could answer before.
  const listed = await asked(readMembers(redis, keys.accounts, wanted))
  const deleted = await asked(readMembers(redis, keys.deletedAccounts, wanted))
  // One that is being deleted is in both lists.
  const members = [...new Set([...listed, ...deleted])]
  if (deleted.length > 0) members.sort(byBytes)
  const accounts = members.slice(0, limit).map((member): ListedAccount => {
    const [id = '', ref = ''] = member.split(':')
    return { id, ref }
  })
  return { accounts, hasMore: members.length > limit }
}

const byBytes = (a: string, b: string) => (a < b ? -1 : Number(a > b))

/** How many accounts a walk will meet, if none is created meanwhile. One that is just being deleted counts twice. */
export async function countAccounts(redis: Redis, after?: string): Promise<number> {
  // A member is `<id>:<ref>`, and `;` follows `:`.
  const from = after === undefined ? '-' : `(${after};`
  const lists = [keys.accounts, keys.deletedAccounts]
  const counts = await asked(Promise.all(lists.map((list) => redis.zlexcount(list, from, '+'))))
  return counts.reduce((sum, count) => sum + count, 0)
}
