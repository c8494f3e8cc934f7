// Erases a deleted account: only its id, its sums and its journal stay, without a name. The account was closed before
// (ledger/closing.ts), so nothing is added meanwhile. Each step may be repeated, and none holds Redis for long.

import { keyWindows } from '../budget.ts'
import { isCluster } from '../redis/client.ts'
import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/keys.ts'
import { forgetNames } from './account-names.ts'
import { redisSeconds } from './key-rows.ts'

const keysAtOnce = 100
const scannedAtOnce = 1000
const maxPasses = 5

export function createErasure(redis: Redis) {
  return {
    /** Removes all API keys of the account: each is unknown from now on. */
    eraseKeys: (ref: string) => asked(eraseKeys(redis, ref)),
    /** Removes everything under the account's tag, except its books and what a sweeper still needs. */
    eraseRows: (ref: string) => asked(eraseRows(redis, ref)),
    /** The last step: the account is nameless, and listed with the deleted ones. */
    eraseAccount: (ref: string, id: string) => asked(eraseAccount(redis, ref, id)),
  }
}

async function eraseKeys(redis: Redis, ref: string): Promise<void> {
  const list = keys.keyList(ref)
  for (;;) {
    const ids = [await redis.hrandfield(list, keysAtOnce)].flat().map(String)
    if (ids.length === 0) return
    const hmacs = await redis.hmget(list, ...ids)
    await redis.unlink(...hmacs.map((hmac) => keys.key(ref, hmac ?? '')))
    await redis.hdel(keys.keyIds, ...ids)
    // Last, so that a call after a crash still finds the keys here.
    await redis.hdel(list, ...ids)
  }
}

/** The names after the tag that stay. Marks of settlements and answers to credits expire within 26 hours; until then a repeated call finds them. */
const stays =
  /^(account|journal|payments|usage:.+|settled:.+|credit:.+|due|session-objects|storage)$/

/** A request under way may still write between two passes, so they are repeated until one finds nothing (at most 5). */
async function eraseRows(redis: Redis, ref: string): Promise<void> {
  for (let pass = 0; pass < maxPasses; pass++) {
    if ((await eraseOnce(redis, ref)) === 0) break
  }
}

async function eraseOnce(redis: Redis, ref: string): Promise<number> {
  const tag = `{${ref}}:`
  let erased = 0
  for (const node of isCluster(redis) ? redis.nodes('master') : [redis]) {
    let cursor = '0'
    do {
      const [next, found] = await node.scan(cursor, 'MATCH', `${tag}*`, 'COUNT', scannedAtOnce)
      const going = found.filter((key) => !stays.test(key.slice(tag.length)))
      if (going.length > 0) erased += await redis.unlink(...going)
      cursor = next
    } while (cursor !== '0')
  }
  return erased
}

/** Removes what the row has for every present or past key: its open holds, and the windows of its budget. */
async function eraseKeyFields(redis: Redis, row: string): Promise<void> {
  let cursor = '0'
  do {
    const [next, found] = await redis.hscan(row, cursor, 'COUNT', scannedAtOnce)
    const names = found.filter((_, i) => i % 2 === 0)
    const going = names.filter((name) => name.startsWith('open:') || name.startsWith(keyWindows))
    if (going.length > 0) await redis.hdel(row, ...going)
    cursor = next
  } while (cursor !== '0')
}

const named = ['name', 'external_id', 'metadata', 'minute', 'requests', 'tokens'] as const

async function eraseAccount(redis: Redis, ref: string, id: string): Promise<void> {
  const row = keys.account(ref)
  await redis.hdel(row, ...named)
  await eraseKeyFields(redis, row)
  await forgetNames(redis, id)
  await redis.hsetnx(row, 'deleted_at', await redisSeconds(redis))
  // While something is due, the sweeper needs the row, and removes it in the end (files/lua/close.lua).
  if ((await redis.exists(keys.due(ref))) === 0) await redis.unlink(keys.storage(ref))
  // In this order, so that a deletion that is cut can be called again by the account's id.
  const member = `${id}:${ref}`
  await redis.zadd(keys.deletedAccounts, 0, member)
  await redis.zrem(keys.accounts, member)
  await redis.srem(keys.debtors, ref)
}
