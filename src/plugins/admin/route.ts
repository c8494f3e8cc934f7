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

/** The account that the path names. The log then has its id. Throws `account_not_found`. */
export async function accountIn({ accounts }: Gateway, x: Exchange): Promise<StoredAccount> {
  const found = await accounts.getAccount(idOf(x))
  x.facts.accountId = found.account.id
  return found
}

/** The route's `:id`: an account's id or name, or a key's id. */
export function idOf({ params }: Exchange): string {
  return params.id ?? ''
}
