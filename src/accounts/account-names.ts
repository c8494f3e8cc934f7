// Records which account has a name or an external id: one account at a time, even if several ask at the same moment. A
// name is taken before the account's row is written. It stays taken only while the row has it (or is being written, for
// 10 s at most), so no name has to be given back.

import type { Redis } from '../redis/client.ts'
import { keys } from '../redis/keys.ts'

/** Fields in the hash of all owners. */
const ownerFields = {
  name: (name: string) => `name:${name}`,
  external_id: (externalId: string) => `external:${externalId}`,
} as const

export type UniqueField = keyof typeof ownerFields

export interface WantedName {
  readonly what: UniqueField
  readonly text: string
  /** The id of the account that wants the text. */
  readonly id: string
  /** Whether the account that took the text has it in its row. */
  isHeldBy(id: string): Promise<boolean>
}

/** A name whose row is being written. */
export interface TakenName {
  /** To be called when the row is written, or never will be. */
  done(): Promise<void>
}

/** A row that is not written within this time never will be. */
const makingMs = 10_000
const maxRounds = 4

/** Resolves with undefined when another account has the text. */
export async function takeName(redis: Redis, wanted: WantedName): Promise<TakenName | undefined> {
  const { what, text, id, isHeldBy } = wanted
  const field = ownerFields[what](text)
  for (let round = 0; round < maxRounds; round++) {
    const { before, owner, sinceMs, writers } = await stateOf(redis, field)
    if (owner !== '' && owner !== id) {
      if (Date.now() - sinceMs < makingMs || (await isHeldBy(owner))) return undefined
    }
    const after = `${id} ${Date.now()} ${owner === id ? writers + 1 : 1}`
    if (await change(redis, field, before, after)) {
      return { done: () => letGo(redis, field, id) }
    }
  }
  return undefined
}

/**
 * Two calls may write rows of one account at the same time: the name counts as being written until the last one is
 * done.
 */
async function letGo(redis: Redis, field: string, id: string): Promise<void> {
  for (let round = 0; round < maxRounds; round++) {
    const { before, owner, sinceMs, writers } = await stateOf(redis, field)
    if (owner !== id || writers === 0) return
    const after = writers > 1 ? `${id} ${sinceMs} ${writers - 1}` : id
    if (await change(redis, field, before, after)) return
  }
}

/** An owner is `<account id>`, or `<account id> <since, ms> <writers>` while rows are being written. */
async function stateOf(redis: Redis, field: string) {
  const before = (await redis.hget(keys.nameOwners, field)) ?? ''
  const [owner = '', sinceMs, writers] = before.split(' ')
  return { before, owner, sinceMs: Number(sinceMs ?? 0), writers: Number(writers ?? 0) }
}

/** The id of the account that took the text last. */
export async function nameOwner(
  redis: Redis,
  what: UniqueField,
  text: string,
): Promise<string | undefined> {
  const found = await redis.hget(keys.nameOwners, ownerFields[what](text))
  return found?.split(' ', 1)[0]
}

const scanned = 1000

/** Removes all names that a deleted account has or had. Reads every name there is, a thousand at a time. */
export async function forgetNames(redis: Redis, id: string): Promise<void> {
  let cursor = '0'
  do {
    const [next, pairs] = await redis.hscan(keys.nameOwners, cursor, 'COUNT', scanned)
    for (let at = 0; at < pairs.length; at += 2) {
      const [field = '', owner = ''] = pairs.slice(at, at + 2)
      if (owner.split(' ', 1)[0] === id) await change(redis, field, owner, '')
    }
    cursor = next
  } while (cursor !== '0')
  do {
    const match = `*\0${id}`
    const [next, found] = await redis.zscan(
      keys.accountNames,
      cursor,
      'MATCH',
      match,
      'COUNT',
      scanned,
    )
    const members = found.filter((_member, at) => at % 2 === 0)
    if (members.length > 0) await redis.zrem(keys.accountNames, ...members)
    cursor = next
  } while (cursor !== '0')
}

const script = `
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then return redis.call('HDEL', KEYS[1], ARGV[1]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1`

/** Resolves with false when the owner has changed meanwhile; `before` or `after` is '' where there is none. */
async function change(
  redis: Redis,
  field: string,
  before: string,
  after: string,
): Promise<boolean> {
  return (await redis.eval(script, 1, keys.nameOwners, field, before, after)) === 1
}
