// Keys of the playground: API keys that the page itself uses, for an hour, with all models of the plan. They stand in no
// list, and none outlives the log-in that it was made for.

import { GatewayError } from '../errors.ts'
import type { Scope } from '../exchange.ts'
import { hmacKey, keyHint, newKey } from '../accounts/api-key.ts'
import { newId } from '../ids.ts'
import { keys } from '../redis/keys.ts'
import { createScripts, numberAt, textAt } from '../redis/scripts.ts'
import type { ScriptLibrary, ScriptLink } from '../redis/scripts.ts'
import { loginLife } from './portal.ts'
import type { Entry } from './secrets.ts'

export const pageKeyScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: { page_key: { after: ['portal'], words: ['ok', 'not_logged_in'] } },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

const lifeMs = 3_600_000
const scopes: readonly Scope[] = ['chat', 'sessions', 'files']

export interface PageKey {
  readonly object: 'account.playground_key'
  /** As the rows of usage and the transactions have it; the same for all such keys of an account. */
  readonly id: string
  readonly key: string
  readonly scopes: readonly Scope[]
  readonly expires_at: number
}

export interface PageKeyOptions {
  readonly pepper: string
  /** Of an account; a further one ends the oldest. */
  readonly most: number
}

/** Throws `not_logged_in` if the log-in has ended meanwhile. */
export function createPageKeys(
  link: ScriptLink,
  { pepper, most }: PageKeyOptions,
): (login: Entry) => Promise<PageKey> {
  const scripts = createScripts({ link, library: pageKeyScripts })
  return async ({ ref, hash }) => {
    const key = newKey(ref)
    const hmac = hmacKey(key, pepper)
    const names = [keys.account(ref), keys.logins(ref), keys.pageKeys(ref), keys.key(ref, hmac)]
    const life = [newId('key'), String(lifeMs), String(most)]
    const args = [hash, hmac, ...life, keyHint(key), scopes.join(' '), ...loginLife]
    const reply = await scripts.run('page_key', names, args)
    if (reply.word !== 'ok') throw new GatewayError(reply.word)
    const [id, expires_at] = [textAt(reply, 2), numberAt(reply, 3)]
    return { object: 'account.playground_key', id, key, scopes, expires_at }
  }
}
