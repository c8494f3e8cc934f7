// An account's API keys as rows in Redis: made, listed, revoked, rotated. Only a key's HMAC is stored; its text is in
// the answer of its creation and nowhere else. Scripts read the row at each request, so a revoked key is refused at once.

import { budgetText } from '../budget.ts'
import type { TokenBudget } from '../budget.ts'
import type { Redis } from '../redis/client.ts'
import { asked } from '../redis/asked.ts'
import { GatewayError } from '../errors.ts'
import type { Scope } from '../exchange.ts'
import { invalidParameter } from '../http/refusals.ts'
import { newId } from '../ids.ts'
import { keys } from '../redis/keys.ts'
import { createScripts } from '../redis/scripts.ts'
import type { ScriptLibrary, Scripts, WordsOf } from '../redis/scripts.ts'
import { FairTurns } from '../sharing/fair-turns.ts'
import { hmacKey, keyHint, newKey, parseKey } from './api-key.ts'
import { readKeys, redisSeconds, statusOf } from './key-rows.ts'
import type { ApiKey, KeyLimits, KeyRow } from './key-rows.ts'
import { amendRow } from './open-rows.ts'

export interface KeyFields {
  readonly name?: string
  readonly scopes?: readonly Scope[]
  readonly models?: readonly string[]
  /** Unix seconds. */
  readonly expiresAt?: number | null
  readonly limits?: KeyLimits
  readonly budget?: TokenBudget | null
}

export type KeyChange = Pick<KeyFields, 'name' | 'budget'>

/** Fixed before anything is written, so that a creation that is carried out twice makes one key. */
export interface KeySeed {
  readonly id: string
  readonly text: string
  readonly createdAt: number
}

/** A key that was just made: the only time its text is seen. */
export type NewApiKey = ApiKey & { readonly key: string }

export const allScopes: readonly Scope[] = ['chat', 'sessions', 'files', 'billing']

export const keyScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    key: { words: ['ok', 'account_not_found', 'account_deleted', 'key_limit_reached'] },
    forget: { words: ['ok'] },
  },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

export function createKeyBook(redis: Redis, pepper: string) {
  const scripts = createScripts({ link: { client: redis }, library: keyScripts })
  return {
    /** Throws `key_limit_reached` when the account's list has `most` keys. */
    createKey: (ref: string, fields: KeyFields, seed = newKeySeed(ref), most?: number) =>
      asked(create({ redis, ref, pepper, scripts, most }, fields, seed)),
    /**
     * In order of creation. Waits for its turn, because a customer may ask for hundreds of lists at once: `share` names
     * the one who waits.
     */
    listKeys: (ref: string, share = ref) => lists.run(share, () => asked(list(redis, ref))),
    /** Throws `key_not_found`. Revoking again changes nothing. */
    revokeKey: (id: string) => asked(revoke(redis, id)),
    /** Throws `key_not_found`. */
    setKey: (id: string, fields: KeyChange) => asked(set(redis, id, fields)),
    /** A new key with the same properties; the old one dies after `graceS`, at once where that is 0. */
    rotateKey: (id: string, graceS: number, seed?: KeySeed, most?: number) =>
      asked(rotate({ redis, pepper, scripts, most }, id, graceS, seed)),
    /** Forgets dead keys (`ids` has at least one): they are then refused as if they had never existed. */
    forgetKeys: (ref: string, ids: readonly string[]) =>
      asked(forget({ redis, scripts }, ref, ids)),
    /** The ref of the key's account. Throws `key_not_found`. */
    getKeyRef: (id: string) => asked(findRef(redis, id)),
    /** The key whose text this is. Throws `key_not_found`, also for a text that cannot be a key. */
    findKey: (text: string) => asked(findByText(redis, text, pepper)),
  }
}

export function newKeySeed(ref: string): KeySeed {
  return { id: newId('key'), text: newKey(ref), createdAt: Math.floor(Date.now() / 1000) }
}

interface KeyBookParts {
  readonly redis: Redis
  readonly ref: string
  readonly pepper: string
  readonly scripts: Scripts<WordsOf<typeof keyScripts>>
  /** How many keys the account's list may have. */
  readonly most?: number | undefined
}

async function create(parts: KeyBookParts, fields: KeyFields, seed: KeySeed): Promise<NewApiKey> {
  const { name = '', scopes = allScopes, models = ['*'], expiresAt, limits = {}, budget } = fields
  const row = {
    id: seed.id,
    name,
    hint: keyHint(seed.text),
    scopes: scopes.join(' '),
    models: models.includes('*') ? '*' : models.join(' '),
    created_at: String(seed.createdAt),
    ...given({
      expires_at: expiresAt ?? undefined,
      rpm: limits.requests_per_minute,
      tpm: limits.tokens_per_minute,
      concurrency: limits.concurrency,
      budget: budget ? budgetText(budget) : undefined,
    }),
  }
  return { ...(await store(parts, seed, row)), key: seed.text }
}

/** Writes first which account the id belongs to: an id without a key is harmless, but a key without its id could not be revoked. */
async function store(
  { redis, ref, pepper, scripts, most }: KeyBookParts,
  { id, text }: KeySeed,
  row: KeyRow,
): Promise<ApiKey> {
  const hmac = hmacKey(text, pepper)
  await redis.hset(keys.keyIds, id, ref)
  const names = [keys.account(ref), keys.keyList(ref), keys.key(ref, hmac)]
  const args = [id, hmac, String(most ?? ''), ...Object.entries(row).flat()]
  const { word } = await scripts.run('key', names, args)
  if (word === 'ok') return show(redis, ref, hmac)
  await redis.hdel(keys.keyIds, id)
  throw new GatewayError(word)
}

/** The fields that have a value, as HSET takes them. */
export function given(
  fields: Readonly<Record<string, string | number | undefined>>,
): Record<string, string> {
  const present = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as const],
  )
  return Object.fromEntries(present)
}

const listsAtOnce = 4
const lists = new FairTurns(listsAtOnce)
const rowsAtOnce = 100

async function list(redis: Redis, ref: string): Promise<readonly ApiKey[]> {
  const found = await redis.hgetall(keys.keyList(ref))
  const sorted = Object.entries(found).toSorted(([a], [b]) => (a < b ? -1 : 1))
  const hmacs = sorted.map(([, hmac]) => hmac)
  const all: ApiKey[] = []
  for (let i = 0; i < hmacs.length; i += rowsAtOnce)
    all.push(...(await readKeys(redis, ref, hmacs.slice(i, i + rowsAtOnce))))
  return all
}

/** The index by id goes last: what a crash leaves of it leads to no key. */
async function forget(
  { redis, scripts }: Pick<KeyBookParts, 'redis' | 'scripts'>,
  ref: string,
  ids: readonly string[],
): Promise<void> {
  await scripts.run('forget', [keys.account(ref), keys.keyList(ref)], [ids.join(' ')])
  await redis.hdel(keys.keyIds, ...ids)
}

async function revoke(redis: Redis, id: string): Promise<ApiKey> {
  return amend(redis, id, 'HSETNX', { revoked_at: await redisSeconds(redis) })
}

async function set(redis: Redis, id: string, { name, budget }: KeyChange): Promise<ApiKey> {
  const budgetField = budget === undefined ? undefined : budgetText(budget)
  return amend(redis, id, 'HSET', given({ name, budget: budgetField }))
}

async function amend(
  redis: Redis,
  id: string,
  command: 'HSET' | 'HSETNX',
  fields: Readonly<Record<string, string | number>>,
): Promise<ApiKey> {
  const { ref, hmac } = await find(redis, id)
  await amendRow(redis, command, { key: keys.key(ref, hmac), fields })
  return show(redis, ref, hmac)
}

async function rotate(
  { redis, ...parts }: Omit<KeyBookParts, 'ref'>,
  id: string,
  graceS: number,
  fixed: KeySeed | undefined,
): Promise<NewApiKey> {
  const { ref, hmac } = await find(redis, id)
  const seed = fixed ?? newKeySeed(ref)
  const [old, nowS] = await Promise.all([redis.hgetall(keys.key(ref, hmac)), redisSeconds(redis)])
  const isRepeated = await redis.hexists(keys.keyList(ref), seed.id)
  if (!isRepeated && statusOf(old, nowS) !== 'active') {
    const message = 'The key is revoked or expired already. Create a new one.'
    throw invalidParameter('id', message)
  }
  const { name, scopes, models, expires_at, rpm, tpm, concurrency, budget, budget_of } = old
  const row = {
    ...given({ name, scopes, models, expires_at, rpm, tpm, concurrency, budget }),
    // What the old key has spent still counts: otherwise a rotation would renew the budget.
    budget_of: budget_of ?? id,
    id: seed.id,
    hint: keyHint(seed.text),
    created_at: String(seed.createdAt),
  }
  const made = await store({ redis, ref, ...parts }, seed, row)
  // The earlier end wins, so that a repeated rotation does not prolong the old key's life.
  const key = keys.key(ref, hmac)
  if (graceS === 0) await amendRow(redis, 'HSETNX', { key, fields: { revoked_at: nowS } })
  else {
    const endsAt = Math.min(nowS + graceS, Number(expires_at ?? Infinity))
    await amendRow(redis, 'HSET', { key, fields: { expires_at: endsAt } })
  }
  return { ...made, key: seed.text }
}

async function find(redis: Redis, id: string): Promise<{ ref: string; hmac: string }> {
  const ref = await findRef(redis, id)
  const hmac = await redis.hget(keys.keyList(ref), id)
  if (hmac === null) throw new GatewayError('key_not_found')
  return { ref, hmac }
}

async function findRef(redis: Redis, id: string): Promise<string> {
  const ref = await redis.hget(keys.keyIds, id)
  if (ref === null) throw new GatewayError('key_not_found')
  return ref
}

async function findByText(redis: Redis, text: string, pepper: string): Promise<ApiKey> {
  const ref = parseKey(text)?.ref
  if (ref === undefined) throw new GatewayError('key_not_found')
  const key = await show(redis, ref, hmacKey(text, pepper))
  // A missing row is read as a key without an id.
  if (key.id === '') throw new GatewayError('key_not_found')
  return key
}

async function show(redis: Redis, ref: string, hmac: string): Promise<ApiKey> {
  const [key] = await readKeys(redis, ref, [hmac])
  if (!key) throw new GatewayError('key_not_found')
  return key
}

/**
 * Removes the keys of the playground, because their log-ins have ended. No new ones are made meanwhile: only active
 * accounts get them.
 */
export async function endPageKeys(redis: Redis, ref: string): Promise<void> {
  const hmacs = await redis.hkeys(keys.pageKeys(ref))
  await redis.unlink(keys.pageKeys(ref), ...hmacs.map((hmac) => keys.key(ref, hmac)))
}
