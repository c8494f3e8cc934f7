// What the routes of sessions have in common.

import type { Exchange } from '../exchange.ts'
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

/** What stands in the path; no id where none does. */
export function idsOf({ params }: Exchange): {
  readonly session: string
  readonly message: string
} {
  return { session: params.id ?? '', message: params.mid ?? '' }
}
