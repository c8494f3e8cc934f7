// What a request has used, in tokens of its model: one shape from the meter to the journal. backend/report.ts makes it of
// a backend's JSON. Here it is read from Redis, and becomes what the API has. Knows no prices.

export interface TokenCounts {
  readonly prompt: number
  /** Tokens of the prompt that the backend had cached: a part of `prompt`. */
  readonly cached: number
  readonly completion: number
}

export const noTokens: TokenCounts = { prompt: 0, cached: 0, completion: 0 }

/** As Redis keeps them: `<prompt> <cached> <completion>`. Reads the first three words; a word that is missing counts as 0. */
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
