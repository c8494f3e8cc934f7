// The header list of an answer, as Node takes it fastest: flat, name after value. Values may come from anywhere
// (a client's id, a file's name, a backend): nothing in them can end a header or begin another. And the headers that
// several plugins write or read: limits and Idempotency-Key.

import type { IncomingHttpHeaders } from 'node:http'
import type { LimitState, LimitStates } from '../errors.ts'
import { invalidParameter } from './refusals.ts'

export type Headers = Readonly<Record<string, string>>

/** A name that is not an HTTP token is left out; control characters and characters outside latin1 become `?`. */
export function headerList(id: string, ...groups: readonly Headers[]): string[] {
  const list = ['X-Request-Id', id]
  for (const group of groups) {
    for (const name in group) {
      const value = group[name]
      if (value === undefined || !token.test(name)) continue
      list.push(name, unsafe.test(value) ? value.replace(allUnsafe, '?') : value)
    }
  }
  return list
}

const token = /^[\w!#$%&'*+.^`|~-]+$/
const unsafe = /[^\t\x20-\x7e\x80-\xff]/
const allUnsafe = new RegExp(unsafe, 'g')

/** Names are compared without case, because many parts of the gateway write headers. */
export function headerOf(headers: Headers, lowerName: string): string | undefined {
  for (const name in headers) {
    if (name.length === lowerName.length && name.toLowerCase() === lowerName) return headers[name]
  }
  return undefined
}

/** The x-ratelimit headers, in the form that OpenAI's SDKs and their users know (docs/api.md#response-headers). */
export function limitHeaders({ requests, tokens }: LimitStates): Headers {
  const headers: Record<string, string> = {}
  // The names are written out: V8 would look up the text of each one that is put together.
  if (requests) {
    headers['x-ratelimit-limit-requests'] = String(requests.limit)
    headers['x-ratelimit-remaining-requests'] = remaining(requests)
    headers['x-ratelimit-reset-requests'] = formatReset(requests.resetMs)
  }
  if (tokens) {
    headers['x-ratelimit-limit-tokens'] = String(tokens.limit)
    headers['x-ratelimit-remaining-tokens'] = remaining(tokens)
    headers['x-ratelimit-reset-tokens'] = formatReset(tokens.resetMs)
  }
  return headers
}

const remaining = (state: LimitState): string => String(Math.max(0, Math.floor(state.remaining)))

/** `12ms`, `1s`, `6m0s`, `1h0m0s`; rounded up, so that a client that waits this long does not come too early. */
function formatReset(ms: number): string {
  const wholeMs = Math.max(0, Math.ceil(ms))
  if (wholeMs < 1000) return `${wholeMs}ms`
  const seconds = Math.ceil(wholeMs / 1000)
  const minutes = Math.floor(seconds / 60)
  const hours = Math.floor(minutes / 60)
  if (hours > 0) return `${hours}h${minutes % 60}m${seconds % 60}s`
  return minutes > 0 ? `${minutes}m${seconds % 60}s` : `${seconds}s`
}

/** The Idempotency-Key, if it was sent. Throws `invalid_parameter`. */
export function idempotencyKey(headers: IncomingHttpHeaders): string | undefined {
  const key = headers['idempotency-key']
  if (key === undefined || (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key))) return key
  const message = 'Idempotency-Key must be 1 to 255 visible ASCII characters.'
  throw invalidParameter('Idempotency-Key', message)
}
