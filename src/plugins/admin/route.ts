// What the routes of the admin API have in common.

import { answering } from '../../exchange.ts'
import type { Answer, Exchange, Route } from '../../exchange.ts'
import type { StoredAccount } from '../../accounts/accounts.ts'
import type { Gateway } from '../../plugin.ts'

export type Serve = (x: Exchange) => Promise<Answer>

const maxBytes = 64 * 1024

export function route(
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
  path: string,
  serve: Serve,
  query: readonly string[] = [],
): Route {
  const hasBody = method === 'POST' || method === 'PATCH'
  return {
    method,
    path: `/admin/${path}`,
    listener: 'admin',
    access: 'admin-token',
    query,
    ...(hasBody ? { body: 'json', maxBytes } : { body: 'none' }),
    begin: answering(serve),
  }
}

/** The account of this id or name, by default the one in the path. Throws `account_not_found`. */
export async function accountIn(
  { accounts }: Gateway,
  x: Exchange,
  idOrName = idOf(x),
): Promise<StoredAccount> {
  const found = await accounts.getAccount(idOrName)
  noteAccount(x, found.account)
  return found
}

/** For the log: the call is about this account. Returns it. */
export function noteAccount<T extends { readonly id: string }>(x: Exchange, account: T): T {
  x.facts.accountId = account.id
  return account
}

/** The same for a key. */
export function noteKey<T extends { readonly id: string }>(x: Exchange, key: T): T {
  x.facts.keyId = key.id
  return key
}

/** The route's `:id`: an account's id or name, or a key's id. */
export function idOf({ params }: Exchange): string {
  return params.id ?? ''
}
