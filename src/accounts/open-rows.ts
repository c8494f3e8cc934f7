// Writes into rows of an account that are still there: the check and the write are one step, so that a change which meets
// a deletion leaves nothing behind.

import type { Redis } from '../redis/client.ts'
import { GatewayError } from '../errors.ts'
import { keys } from '../redis/keys.ts'

type RowFields = Readonly<Record<string, string | number>>

const write = `
local is_there, is_closed = redis.call('HEXISTS', KEYS[1], 'id'), redis.call('HEXISTS', KEYS[1], 'closed_at')
if is_there == 0 then return 'account_not_found' end
if is_closed == 1 then return 'account_deleted' end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 'ok'`

/** Sets at least one field of the account's row. Throws `account_not_found` and `account_deleted`; then nothing was written. */
export async function writeAccount(redis: Redis, ref: string, fields: RowFields): Promise<void> {
  const word = await redis.eval(write, 1, keys.account(ref), ...Object.entries(fields).flat())
  if (word === 'account_not_found' || word === 'account_deleted') throw new GatewayError(word)
}

const amend = `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))`

interface RowChange {
  readonly key: string
  /** With HSETNX at most one. */
  readonly fields: RowFields
}

/** Sets fields of a row that exists; with HSETNX a field that has no value. */
export async function amendRow(
  redis: Redis,
  command: 'HSET' | 'HSETNX',
  { key, fields }: RowChange,
): Promise<void> {
  const words = Object.entries(fields).flat()
  if (words.length > 0) await redis.eval(amend, 1, key, command, ...words)
}
