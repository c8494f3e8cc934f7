// What the routes of the admin API have in common.

import { z } from '../../config/schema.ts'
import { answering } from '../../exchange.ts'
import type { Answer, Exchange, Route } from '../../exchange.ts'

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

/** Text for people: without control characters, which would end up on an operator's terminal. */
export function printable(maxLength: number) {
  return z
    .string()
    .max(maxLength, { error: `write at most ${maxLength} characters` })
    .regex(/^[^\p{Cc}\p{Cs}]*$/u, { error: 'write text without control characters' })
}

/** The route's `:id`: an account's id or name, or a key's id. */
export function idOf({ params }: Exchange): string {
  return params.id ?? ''
}
