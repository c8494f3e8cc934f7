// What an answer is charged for: what its backend has reported, and what the gateway has counted where it has not.

import type { TokenCounts } from '../tokens/token-counts.ts'
import type { Reported } from './report.ts'

export interface Used extends TokenCounts {
  readonly estimated: boolean
  readonly basis: 'reported' | 'counted'
}

export interface OwnCount {
  /** Output tokens, by the gateway's own tokenizer. */
  readonly counted: number
  /** For a backend that reports no prompt. */
  readonly promptTokens: number
  /** The most output tokens that may be generated. */
  readonly bound: number
  /** 0 where the endpoint generates nothing. */
  readonly choices: number
}

export function usedOf(
  { prompt, cached, completion: reported }: Reported,
  { counted, promptTokens, bound, choices }: OwnCount,
): Used {
  const said = prompt || undefined
  // Beside a reported count, the gateway's own tokenizer must not say more than could be generated.
  const most = reported === undefined ? Infinity : bound
  const completion = Math.max(reported ?? 0, Math.min(counted, most))
  const isUnknown = said === undefined || (reported === undefined && choices > 0)
  const estimated = isUnknown || completion > (reported ?? 0)
  return {
    prompt: said ?? promptTokens,
    cached: Math.min(cached, said ?? 0),
    completion,
    estimated,
    basis: estimated ? 'counted' : 'reported',
  }
}

/** An event has at least one token, whatever the vocabulary; but some servers send single letters, and then more than two events for a counted token. */
export function sentTokens(counted: number, events: number): number {
  const isByToken = events <= 2 * counted
  return isByToken ? Math.max(counted, events) : counted
}
