// The top-level fields of a message's body, beside what is said: the parameters that go on to the backend as they were
// written, by the table of chat/parameters.ts, and what a session can't have.

import type { Stranger } from '../chat/media.ts'
import { judge, parameterNames, refusalFor, rulesOf } from '../chat/parameter-check.ts'
import type { Model } from '../config/config.ts'
import type { JsonScan } from '../http/json-scan.ts'
import { invalid } from '../http/refusals.ts'

export interface Parameters {
  /** Name → JSON text, byte for byte; in the order of the body. */
  readonly parameters: ReadonlyMap<string, string>
  /** Those of them that only a model's `extra_parameters` can allow. */
  readonly strangers: readonly Stranger[]
  /** The lower of `max_tokens` and `max_completion_tokens`. */
  readonly maxTokens?: number
}

const maximumFields = ['max_tokens', 'max_completion_tokens'] as const

/** The message's own fields, which turns.ts reads. */
const sendFields = new Set(['content', 'messages', 'model', 'stream', 'on_disconnect'])

/** Read, and written to the backend by the gateway alone. `store` is what a session does anyway. */
const dropped = new Set(['n', 'best_of', 'store'])

/** Null is as good as absent; anything else is refused, saying what to do instead. */
const refused: Readonly<Record<string, string>> = {
  audio: 'is not possible in a session, which keeps text only',
  function_call: 'is of the old interface. Use "tool_choice"',
  functions: 'is of the old interface. Use "tools"',
  metadata: "can't be set on a message. Set it on the session",
}

/** For scanJson: nothing may look like one of these. */
export const ownKeys: ReadonlySet<string> = new Set([...sendFields, ...parameterNames])

const rules = rulesOf('chat')

/** Throws `invalid_parameter` and `unknown_parameter`; of the strangers only the model can tell. */
export function readParameters(scan: JsonScan): Parameters {
  const parameters = new Map<string, string>()
  const strangers: Stranger[] = []
  for (const [key, member] of scan.members) {
    if (sendFields.has(key)) continue
    const value = scan.value(key) // above 1 MiB this is what checks its JSON
    if (Object.hasOwn(refused, key) && value !== null) throw invalid(key, refused[key] ?? '')
    checkOwn(key, value)
    if (dropped.has(key) || Object.hasOwn(refused, key)) continue
    parameters.set(key, scan.text(key) ?? 'null')
    const rule = rules.get(key)
    if (rule) judge(key, { rule, scan, member, strangers })
    else strangers.push({ name: key, param: key })
  }
  const maximums = maximumFields.flatMap((key) => readCount(scan, key) ?? [])
  return { parameters, strangers, maxTokens: maximums.length ? Math.min(...maximums) : undefined }
}

/** Throws `unknown_parameter` where the model does not take what the body has. */
export function checkStrangers(
  strangers: readonly Stranger[],
  model: Pick<Model, 'extraParameters' | 'remoteMedia'>,
): void {
  const refusal = refusalFor({ strangers, addresses: [] }, model)
  if (refusal) throw refusal
}

function checkOwn(key: string, value: unknown): void {
  if (value === null) return
  if ((key === 'n' || key === 'best_of') && value !== 1) {
    throw invalid(key, 'must be 1: a message has one answer')
  }
  if (key === 'store' && typeof value !== 'boolean') throw invalid('store', 'must be true or false')
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
