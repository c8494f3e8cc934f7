// Reads what a backend reports of its own answer: what it used, that it failed, or that it loads its model. Ignores counts
// that are impossible. Latin1 is enough, because only numbers and ASCII are read. `usedOf` says what the answer is charged
// for: what its backend has reported, and what the gateway has counted where it has not.

import { field, parsed } from '../http/json/field.ts'
import { isObject } from '../http/refusals.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'

/** What a backend said it used. A count is undefined when the backend sent none, or nonsense. */
export type Reported = Partial<TokenCounts> & Pick<TokenCounts, 'cached'>

export interface Used extends TokenCounts {
  readonly estimated: boolean
  readonly basis: 'reported' | 'counted'
}

interface OwnCount {
  /** Output tokens, by the gateway's own tokenizer. */
  readonly counted: number
  /** For a backend that reports no prompt. */
  readonly promptTokens: number
  /** The most output tokens that may be generated. */
  readonly bound: number
  /** 0 where the endpoint generates nothing. */
  readonly choices: number
}

/** An answer that nobody gets, latin1: its beginning, its end and its size. */
export interface Wasted {
  readonly head: string
  readonly tail: string
  readonly bytes: number
  /** It was a proper answer, and only too large. */
  readonly isAnswer?: boolean
}

/** No answer has so many tokens: a larger report is nonsense, not a price. */
const mostTokens = 1_000_000_000
/** Up to here JSON is parsed: 1 MiB takes 1.5 ms. */
const parsedChars = 1 << 20

const leadingError = /^\s*\{\s*"error"\s*:\s*(?!\s|null\b)/
/** After other keys, "error" may belong to a tool's argument, so the data is then parsed. */
const anyError = /"error"\s*:\s*[{"]/

/** Returns undefined when the usage has no possible count. A total alone is the prompt only where nothing is generated. */
export function readReport(usage: unknown, generates: boolean): Reported | undefined {
  const prompt = tokensIn(usage, 'prompt_tokens')
  const completion = tokensIn(usage, 'completion_tokens')
  const total = tokensIn(usage, 'total_tokens')
  // Embeddings and rerank use only prompt tokens, and some backends send only the total.
  const isPrompt = !generates && field(usage, 'completion_tokens') === undefined
  const alone = prompt ?? (isPrompt ? total : undefined)
  if (alone === undefined && completion === undefined) return undefined
  const cached = tokensIn(field(usage, 'prompt_tokens_details'), 'cached_tokens') ?? 0
  return { prompt: alone, completion, cached }
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

/** Reads a whole answer, latin1. Returns undefined when it is no JSON object, or an error. */
export function readAnswer(data: string): { readonly usage: unknown } | undefined {
  if (data.length > parsedChars) {
    const isCut = !data.trimEnd().endsWith('}')
    return isCut || leadingError.test(data) ? undefined : { usage: usageIn(data) }
  }
  const value = parsed(data)
  const isAnswer = isObject(value) && (field(value, 'error') ?? null) === null
  return isAnswer ? { usage: field(value, 'usage') } : undefined
}

/** The last usage in an answer that is very large (embeddings), or of which only the end is there. Parses only the usage. */
export function usageIn(data: string): unknown {
  const start = data.lastIndexOf('"usage"')
  if (start < 0) return undefined
  const open = data.indexOf('{', start)
  for (let end = data.indexOf('}', open); end >= 0 && end - open < 4096;) {
    const usage = parsed(data.slice(open, end + 1))
    if (usage !== undefined) return usage
    end = data.indexOf('}', end + 1)
  }
  return undefined
}

/** How the first choice of a whole answer ended. Searched as text, because nothing else of the answer is needed. */
export function finishReasonIn(data: string): string | undefined {
  return /"finish_reason"\s*:\s*"([^"\\]{1,64})"/.exec(data)?.[1]
}

/** An event that is the backend's error. */
export function isError(data: string): boolean {
  if (leadingError.test(data)) return true
  return anyError.test(data) && hasError(data)
}

/** JSON with an error that is not null. */
export function hasError(data: string): boolean {
  return (field(parsed(data), 'error') ?? null) !== null
}

/** As llama.cpp ("Loading model") and Hugging Face's servers ("Model m is currently loading") say it. */
const loading = /\bloading\b.*\bmodel\b|\bmodel\b.*\bloading\b/is

interface Said {
  readonly headers: Readonly<Record<string, unknown>>
  /** Its beginning is enough. */
  readonly body: Buffer | undefined
}

/** A 503 that is no failure: the backend loads its model. */
export function saysLoading(status: number, { headers, body }: Said): boolean {
  if (status !== 503) return false
  const said = [body?.toString('latin1', 0, 1024), ...Object.values(headers)]
  return said.some((text) => typeof text === 'string' && loading.test(text))
}

function tokensIn(value: unknown, name: string): number | undefined {
  const tokens = field(value, name)
  const isCount = typeof tokens === 'number' && Number.isInteger(tokens)
  return isCount && tokens >= 0 && tokens <= mostTokens ? tokens : undefined
}
