// What the routes of sessions have in common.

import { GatewayError } from '../errors.ts'
import type { Exchange } from '../exchange.ts'
import { parsePage } from '../http/page.ts'
import type { Page } from '../http/page.ts'
import { isId } from '../ids.ts'
import type { IdPrefix } from '../ids.ts'
import type { Answer, Route } from '../plugin.ts'
import { sessionsPath } from '../sessions/streams.ts'

/** `path` is below that of sessions; a body is read where `maxBytes` is given. */
export function route(
  method: Route['method'],
  path: string,
  more: Pick<Route, 'serve'> & Partial<Route>,
): Route {
  const body = more.maxBytes === undefined ? 'none' : 'json'
  return { method, path: sessionsPath + path, access: 'sessions', body, ...more }
}

export function json(body: object): Answer {
  return { status: 200, body: JSON.stringify(body) }
}

/** The caller's account. */
export function refOf({ caller }: Exchange): string {
  if (!caller) throw new GatewayError('missing_api_key')
  return caller.ref
}

/** What stands in the path; no id where none does. */
export function idsOf({ params }: Exchange): {
  readonly session: string
  readonly message: string
} {
  return { session: params.id ?? '', message: params.mid ?? '' }
}

/** A cursor must look like an id of the listed kind: what else sorts before or after it is nobody's business. */
export function pageOf({ query }: Exchange, prefix: IdPrefix, order: Page['order']): Page {
  const page = parsePage(query, order)
  for (const param of ['after', 'before'] as const) {
    const cursor = page[param]
    if (cursor === undefined || isId(prefix, cursor)) continue
    throw new GatewayError('invalid_parameter', {
      param,
      message: `"${param}" must be the id of a row of this list.`,
    })
  }
  return page
}
