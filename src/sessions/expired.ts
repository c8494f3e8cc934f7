// Sessions that have expired: Redis tells nobody when it removes them, so what they counted in their account's storage is
// given back by whoever meets them. Before a session or a message is refused for want of room, some are looked for.

import type { Redis } from 'ioredis'
import { asked } from '../asked.ts'
import { isId } from '../ids.ts'
import { keys } from '../redis.ts'
import { numberAt } from '../scripts.ts'
import type { SessionScripts } from './library.ts'

export interface ExpiredOptions {
  readonly redis: Redis
  readonly scripts: SessionScripts
}

/** Taken by chance of those that may expire: when many have, some are found each time. */
const lookedAt = 256

/** Runs `store` again where it was refused for want of room and some was found. */
export async function withRoom<T extends { readonly word: string }>(
  options: ExpiredOptions,
  ref: string,
  store: () => Promise<T>,
): Promise<T> {
  const first = await store()
  if (first.word !== 'storage_quota_exceeded') return first
  return (await reclaim(options, ref)) > 0 ? await store() : first
}

/** Answers how many had expired. */
export async function reclaim(
  options: ExpiredOptions,
  ref: string,
  most = lookedAt,
): Promise<number> {
  const fields = await asked(options.redis.hrandfield(keys.storage(ref), most))
  const ids = (Array.isArray(fields) ? fields : []).filter((field) => isId('sess', String(field)))
  return ids.length > 0 ? await forgetExpired(options, ref, ids.map(String)) : 0
}

/** Of these, those that are there stay. */
export async function forgetExpired(
  { scripts }: ExpiredOptions,
  ref: string,
  ids: readonly string[],
): Promise<number> {
  const sessions = ids.map((id) => keys.session(ref, id))
  const reply = await scripts.run(
    'outlived',
    [keys.storage(ref), keys.sessions(ref), ...sessions],
    ids,
  )
  return numberAt(reply, 2)
}
