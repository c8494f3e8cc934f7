// Writes into rows of an account, unless the account is being deleted: the check and the write are one step, so that a
// change which meets a deletion leaves nothing behind.

import type { Redis } from '../redis/client.ts'
import { GatewayError } from '../errors.ts'
import { keys } from '../redis/redis.ts'

/** A hash with its new fields. */
export interface RowChange {
  readonly key: string
  readonly fields: Readonly<Record<string, string | number>>
}

const write = `
local is_there, is_closed = redis.call('HEXISTS', KEYS[1], 'id'), redis.call('HEXISTS', KEYS[1], 'closed_at')
if is_there == 0 then return 'account_not_found' end
if is_closed == 1 then return 'account_deleted' end
local at = 1
for i = 2, #KEYS do
  local count = tonumber(ARGV[at])
  redis.call('HSET', KEYS[i], unpack(ARGV, at + 1, at + count))
  at = at + 1 + count
end
return 'ok'`

/** Throws `account_not_found` and `account_deleted`; then nothing was written. */
export async function writeRows(
  redis: Redis,
  ref: string,
  changes: readonly RowChange[],
): Promise<void> {
  const names = [keys.account(ref), ...changes.map(({ key }) => key)]
  const words = changes.flatMap(({ fields }) => {
    const pairs = Object.entries(fields).flat()
    return [pairs.length, ...pairs]
  })
  const word = await redis.eval(write, names.length, ...names, ...words)
  if (word === 'account_not_found' || word === 'account_deleted') throw new GatewayError(word)
}

const amend = `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
return redis.call(ARGV[1], KEYS[1], ARGV[2], ARGV[3])`

/** Sets a field of a row that exists; with HSETNX only a field that has no value. */
export async function amendRow(
  redis: Redis,
  command: 'HSET' | 'HSETNX',
  { key, fields }: RowChange,
): Promise<void> {
  for (const [field, value] of Object.entries(fields)) {
    await redis.eval(amend, 1, key, command, field, value)
  }
}
