// The top-level fields of a message's body, beside what is said: the parameters of Chat Completions that go on to the
// backend as they were written, those that a session can't have, and what only some models know.

import type { JsonScan } from '../http/json-scan.ts'
import { invalid, isObject, unknown } from '../http/refusals.ts'

export interface Parameters {
  /** Name → JSON text, byte for byte; in the order of the body. */
  readonly parameters: ReadonlyMap<string, string>
  /** Those of them that only a model's `extra_parameters` can allow. */
  readonly extras: readonly string[]
  /** The lower of `max_tokens` and `max_completion_tokens`. */
  readonly maxTokens?: number
}

const maximumFields = ['max_tokens', 'max_completion_tokens'] as const

/** The message's own fields, which turns.ts reads. */
const sendFields = new Set(['content', 'messages', 'model', 'stream', 'on_disconnect'])

/** Read, and written to the backend by the gateway alone. `store` is what a session does anyway. */
const dropped = new Set(['n', 'store'])

/** Null is as good as absent; anything else is refused, saying what to do instead. */
const refused: Readonly<Record<string, string>> = {
  audio: 'is not possible in a session, which keeps text only',
  function_call: 'is of the old interface. Use "tool_choice"',
  functions: 'is of the old interface. Use "tools"',
  metadata: "can't be set on a message. Set it on the session",
}

/** What goes on unread, but for the few that are looked at below. */
const passed = new Set([
  ...maximumFields,
  'frequency_penalty',
  'logit_bias',
  'logprobs',
  'modalities',
  'moderation',
  'parallel_tool_calls',
  'prediction',
  'presence_penalty',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'reasoning_effort',
  'response_format',
  'safety_identifier',
  'seed',
  'service_tier',
  'stop',
  'stream_options',
  'temperature',
  'tool_choice',
  'tools',
  'top_logprobs',
  'top_p',
  'user',
  'verbosity',
  'web_search_options',
])

/** For scanJson: nothing may look like one of these. */
export const ownKeys: ReadonlySet<string> = new Set([
  ...sendFields,
  ...dropped,
  ...passed,
  ...Object.keys(refused),
])

/** Throws `invalid_parameter`; of what it does not know only the model can tell (`extras`). */
export function readParameters(scan: JsonScan): Parameters {
  const parameters = new Map<string, string>()
  const extras: string[] = []
  for (const key of scan.members.keys()) {
    if (sendFields.has(key)) continue
    const value = scan.value(key) // above 1 MiB this is what checks its JSON
    if (Object.hasOwn(refused, key) && value !== null) throw invalid(key, refused[key] ?? '')
    check(key, value)
    if (dropped.has(key) || Object.hasOwn(refused, key)) continue
    parameters.set(key, scan.text(key) ?? 'null')
    if (!passed.has(key)) extras.push(key)
  }
  const maximums = maximumFields.flatMap((key) => readCount(scan, key) ?? [])
  return { parameters, extras, maxTokens: maximums.length ? Math.min(...maximums) : undefined }
}

/** Throws `unknown_parameter` where the model does not take what the body has. */
export function checkExtras(extras: readonly string[], allowed: readonly string[]): void {
  for (const key of extras) if (!allowed.includes(key)) throw unknown(key)
}

function check(key: string, value: unknown): void {
  if (value === null) return
  if (key === 'n' && value !== 1) throw invalid('n', 'must be 1: a message has one answer')
  if (key === 'store' && typeof value !== 'boolean') throw invalid('store', 'must be true or false')
  if (key === 'stream_options' && !isObject(value)) throw invalid(key, 'must be an object or null')
  if (key === 'modalities' && JSON.stringify(value) !== '["text"]') {
    throw invalid(key, 'must be ["text"]: a session keeps text only')
  }
}

/** An integer ≥ 1; undefined where absent or null. */
function readCount(scan: JsonScan, key: string): number | undefined {
  const value = scan.value(key) ?? undefined
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1) {
    throw invalid(key, 'must be an integer ≥ 1 or null')
  }
  return Math.min(value, Number.MAX_SAFE_INTEGER)
}
