// The request target, as path and query. It is never resolved like a browser's URL: `//`, `..` and `%2e` stay as they
// are, so that a path must match a route literally.

import type { IncomingMessage } from 'node:http'
import { malformed } from '../http/refusals.ts'

export interface RequestTarget {
  /** As sent, still percent-encoded. */
  readonly path: string
  readonly query: URLSearchParams
}

export function parseTarget(req: IncomingMessage): RequestTarget {
  const target = originForm(req.url ?? '', req.headers.host)
  if (target.includes('#')) throw malformed('The request target must not have a fragment.')
  const mark = target.indexOf('?')
  if (mark < 0) return { path: target, query: new URLSearchParams() }
  return { path: target.slice(0, mark), query: new URLSearchParams(target.slice(mark + 1)) }
}

/** RFC 9112 §3.2.2: a server must accept the absolute form. Its host must equal the Host header, which other code checks. */
function originForm(url: string, host: string | undefined): string {
  if (url.startsWith('/') || url === '*') return url
  const match = /^https?:\/\/([^/?#]*)(.*)$/is.exec(url)
  if (!match) throw malformed('The request target must begin with a slash.')
  const [, authority = '', rest = ''] = match
  if (authority.toLowerCase() !== host?.toLowerCase()) {
    throw malformed('The request target and the Host header name different hosts.')
  }
  return rest.startsWith('/') ? rest : `/${rest}`
}
