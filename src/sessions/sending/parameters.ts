// Reads the top-level fields of a message's body other than the turns: parameters that go to the backend as the client
// wrote them, by the table in chat/parameters.ts, and parameters that a session refuses.

import type { Unlisted } from '../../chat/media.ts'
import { judge, parameterNames, rulesOf } from '../../chat/parameter-check.ts'
import { readMaximum } from '../../chat/request.ts'
import type { JsonScan } from '../../http/json/scan.ts'
import { invalid } from '../../http/refusals.ts'

export interface Parameters {
  /** Name → JSON text, byte for byte; in the order of the body. */
  readonly parameters: ReadonlyMap<string, string>
  /** Parameters among them that only a model's `extra_parameters` can allow. */
  readonly unlisted: readonly Unlisted[]
  /** The lower of `max_tokens` and `max_completion_tokens`; Infinity where there is none. */
  readonly maxTokens: number
}

/** The message's own fields, which turns.ts reads. */
const sendFields = new Set(['content', 'messages', 'model', 'stream', 'on_disconnect'])

/** Checked, but not passed on to the backend. `store` is what a session does anyway. */
const dropped = new Set(['n', 'best_of', 'store'])

/** Refused unless null; the text tells the client what to do instead. */
const refused: Readonly<Record<string, string>> = {
  audio: 'is not possible in a session, which keeps text only',
  function_call: 'is outdated. Use "tool_choice"',
  functions: 'is outdated. Use "tools"',
  metadata: "can't be set on a message. Set it on the session",
}

/** For scanJson, which refuses other spellings of these keys. */
export const ownKeys: ReadonlySet<string> = new Set([...sendFields, ...parameterNames])

const rules = rulesOf('chat')

/** Throws `invalid_parameter` and `unknown_parameter`; `checkSend` judges the unlisted ones, by the model. */
export function readParameters(scan: JsonScan): Parameters {
  const parameters = new Map<string, string>()
  const unlisted: Unlisted[] = []
  for (const [key, member] of scan.members) {
    if (sendFields.has(key)) continue
    const value = scan.value(key)
    if (Object.hasOwn(refused, key) && value !== null) throw invalid(key, refused[key] ?? '')
    checkOwn(key, value)
    if (dropped.has(key) || Object.hasOwn(refused, key)) continue
    parameters.set(key, scan.text(key) ?? 'null')
    const rule = rules.get(key)
    if (rule) judge(key, { rule, scan, member, unlisted })
    else unlisted.push({ name: key, param: key })
  }
  return { parameters, unlisted, maxTokens: readMaximum(scan).most }
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
