// The headers of a request to a backend. An allow-list for what is the client's, a block-list for what a plugin may add:
// no credential, cookie, Origin, Host or hop-by-hop header of a client ever gets past here.

import type { IncomingHttpHeaders } from 'node:http'
import type { Model, Target } from '../config/config.ts'
import type { BackendRequest } from '../exchange.ts'

const fromEveryClient = ['content-type', 'accept', 'traceparent', 'tracestate'] as const

/** Never sent on, whoever sets them: they belong to the connection, the gateway sets them, or they would pass on a client's identity. */
const never = new Set(
  (
    'connection keep-alive proxy-connection te trailer transfer-encoding upgrade expect host ' +
    'content-length accept-encoding http2-settings authorization proxy-authorization cookie origin ' +
    'referer forwarded x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port x-real-ip'
  ).split(' '),
)

/** Headers that an operator may not set either, because they would break the framing. */
const framing = new Set(['connection', 'transfer-encoding', 'content-length', 'expect', 'trailer'])

/** The client's headers that are sent on for every client, and those that the model lists. */
export function clientHeaders(model: Model, headers: IncomingHttpHeaders): Record<string, string> {
  const out: Record<string, string> = {}
  for (const name of [...fromEveryClient, ...model.forwardHeaders]) {
    const value = headers[name.toLowerCase()]
    if (typeof value === 'string' && !never.has(name.toLowerCase())) out[name.toLowerCase()] = value
  }
  return out
}

/** The target's own headers: the same for each request. */
export function ownHeaders(target: Target, url: URL): Readonly<Record<string, string>> {
  // Without accept-encoding an answer may come in any coding, and the meter reads none.
  const out: Record<string, string> = { host: url.host, 'accept-encoding': 'identity' }
  for (const [name, value] of Object.entries(target.headers)) {
    if (!framing.has(name.toLowerCase())) out[name.toLowerCase()] = value
  }
  if (target.key && target.keyHeader) out[target.keyHeader.toLowerCase()] = target.key
  else if (target.key) out['authorization'] = `Bearer ${target.key}`
  return out
}

export function requestHeaders(
  { headers, body }: BackendRequest,
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const out: Record<string, string> = {}
  for (const name in headers) {
    const value = headers[name]
    const lower = name.toLowerCase()
    if (value !== undefined && !never.has(lower)) out[lower] = value
  }
  const length = body.reduce((sum, piece) => sum + piece.length, 0)
  return Object.assign(out, own, { 'content-length': String(length) })
}
