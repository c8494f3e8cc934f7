// The x-ratelimit headers, in the form that OpenAI's SDKs and their users know (docs/api.md#response-headers).

import type { LimitState, LimitStates } from '../errors.ts'
import type { Headers } from './headers.ts'

export function limitHeaders({ requests, tokens }: LimitStates): Headers {
  const headers: Record<string, string> = {}
  if (requests) put(headers, 'requests', requests)
  if (tokens) put(headers, 'tokens', tokens)
  return headers
}

function put(headers: Record<string, string>, what: string, state: LimitState): void {
  headers[`x-ratelimit-limit-${what}`] = String(state.limit)
  headers[`x-ratelimit-remaining-${what}`] = String(Math.max(0, Math.floor(state.remaining)))
  headers[`x-ratelimit-reset-${what}`] = formatReset(state.resetMs)
}

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
