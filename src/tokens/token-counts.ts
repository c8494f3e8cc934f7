// What a request has used, in tokens of its model: one shape from the meter to the journal. backend/report.ts makes it of
// a backend's JSON. Here it becomes what Redis and the API have, and is read from Redis again. Knows no prices.

export interface TokenCounts {
  readonly prompt: number
  /** Tokens of the prompt that the backend had cached: a part of `prompt`. */
  readonly cached: number
  readonly completion: number
}

export const noTokens: TokenCounts = { prompt: 0, cached: 0, completion: 0 }

const maxTokens = 1e12

/** A whole number that every sum can take, whatever a backend reported. */
export function wholeTokens(tokens: number): number {
  return Math.min(maxTokens, Math.max(0, Math.ceil(tokens) || 0))
}

export function wholeCounts({ prompt, cached, completion }: TokenCounts): TokenCounts {
  return {
    prompt: wholeTokens(prompt),
    cached: wholeTokens(cached),
    completion: wholeTokens(completion),
  }
}

/** As scripts get them, and as Redis keeps them: `<prompt> <cached> <completion>`. */
export function toWords({ prompt, cached, completion }: TokenCounts): string {
  return `${prompt} ${cached} ${completion}`
}

/** Reads the first three words; a word that is missing counts as 0. */
export function fromWords([prompt, cached, completion]: readonly string[]): TokenCounts {
  return { prompt: count(prompt), cached: count(cached), completion: count(completion) }
}

function count(word: string | undefined): number {
  return Number(word) || 0
}

/** As the API has them, in the names of OpenAI's `usage`. */
export interface UsageFields {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}

export function toUsage({ prompt, completion }: TokenCounts): UsageFields {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
  }
}
