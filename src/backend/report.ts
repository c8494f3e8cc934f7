// What a backend says of its own answer: what it used, or that it failed. Believes no count that cannot be. Latin1 is fine:
// what is read are numbers and ASCII.

import { field, parsed } from '../http/json/field.ts'

/** What a backend said it used; a field it did not say, or said nonsense for, is undefined. */
export interface Reported {
  readonly prompt: number | undefined
  readonly completion: number | undefined
  readonly cached: number
}

/** No answer has so many tokens: a larger report is nonsense, not a price. */
const mostTokens = 1_000_000_000
/** Up to here JSON is parsed: 1 MiB takes 1.5 ms. */
const parsedChars = 1 << 20

const leadingError = /^\s*\{\s*"error"\s*:\s*(?!\s|null\b)/
/** Behind other keys it may be a tool's argument: that is looked at closer. */
const anyError = /"error"\s*:\s*[{"]/

/** Undefined where it says nothing that can be. */
export function readReport(usage: unknown): Reported | undefined {
  const prompt = tokensIn(usage, 'prompt_tokens')
  const completion = tokensIn(usage, 'completion_tokens')
  const total = tokensIn(usage, 'total_tokens')
  // Embeddings and rerank have a prompt alone, and some say only the total.
  const alone = prompt ?? (field(usage, 'completion_tokens') === undefined ? total : undefined)
  if (alone === undefined && completion === undefined) return undefined
  const cached = tokensIn(field(usage, 'prompt_tokens_details'), 'cached_tokens') ?? 0
  return { prompt: alone, completion, cached }
}

/** A whole answer, latin1; undefined where it is no JSON object, or an error. */
export function readAnswer(data: string): { readonly usage: unknown } | undefined {
  if (data.length > parsedChars) {
    return leadingError.test(data) ? undefined : { usage: usageIn(data) }
  }
  const value = parsed(data)
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  const isAnswer = isObject && (field(value, 'error') ?? null) === null
  return isAnswer ? { usage: field(value, 'usage') } : undefined
}

/** The last usage in an answer that is very large (embeddings), or of which only the end is there. Parses no more than it. */
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

/** An event that is the backend's error. */
export function isError(data: string): boolean {
  if (leadingError.test(data)) return true
  return anyError.test(data) && hasError(data)
}

/** JSON with an error that is not null. */
export function hasError(data: string): boolean {
  return (field(parsed(data), 'error') ?? null) !== null
}

function tokensIn(value: unknown, name: string): number | undefined {
  const tokens = field(value, name)
  const isCount = typeof tokens === 'number' && Number.isInteger(tokens)
  return isCount && tokens >= 0 && tokens <= mostTokens ? tokens : undefined
}
