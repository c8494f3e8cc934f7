// What a bounded parameter may be. Each check looks at one parsed value, which is not null, and says what is wrong with
// it: that it has to be something else, or that only the model's `extra_parameters` can allow it.

import type { JsonScan } from '../http/json/scan.ts'
import { isObject } from '../http/refusals.ts'
import { field } from '../http/json/field.ts'

export type Fault =
  /** `must` continues the message after the value's path: 'must be a string'. */
  | { readonly must: string; readonly at?: string }
  /** `word` has to be in the model's `extra_parameters`. `at` is its path below the parameter. */
  | { readonly word: string; readonly at: string }
  /** There is no such member, for any model. */
  | { readonly unknown: string }

export type Check = (value: unknown, name: string, scan: JsonScan) => Fault | undefined

/** A text, or a list of texts. */
export function texts(most: number, longest: number): Check {
  const must = `must be a text of at most ${longest} characters, or a list of at most ${most}`
  const isText = (value: unknown) => typeof value === 'string' && value.length <= longest
  return (value) => {
    if (isText(value)) return undefined
    return Array.isArray(value) && value.length <= most && value.every(isText)
      ? undefined
      : { must }
  }
}

export function ids(most: number): Check {
  const must = `must be a list of at most ${most} token ids`
  return (value) =>
    Array.isArray(value) && value.length <= most && value.every(Number.isInteger)
      ? undefined
      : { must }
}

/** An object, or llama.cpp's list of pairs. */
export function members(most: number): Check {
  const must = `must be an object of at most ${most} members`
  return (value) => {
    if (typeof value !== 'object' || value === null) return { must }
    return Object.keys(value).length <= most ? undefined : { must }
  }
}

const mostProbabilities = 20

export const probabilities: Check = (value) => {
  if (typeof value === 'boolean') return undefined
  const isCount = Number.isInteger(value) && Number(value) >= 0
  if (isCount && Number(value) <= mostProbabilities) return undefined
  return { must: `must be true, false or an integer from 0 to ${mostProbabilities}` }
}

export const isTrue: Check = (value, name) => {
  if (value === true) return undefined
  return value === false ? { word: name, at: '' } : { must: 'must be true or false' }
}

const formats = ['none', 'auto', 'deepseek', 'deepseek-legacy', 'parsed', 'raw']

export const reasoningFormat: Check = (value, name) =>
  typeof value === 'string' && formats.includes(value) ? undefined : { word: name, at: '' }

const toolTypes: readonly unknown[] = [undefined, 'function', 'custom']

const toolKeys = 'type function custom name description parameters strict'.split(' ')

export const tools: Check = (value) => {
  if (!Array.isArray(value)) return { must: 'must be a list' }
  for (const [i, tool] of value.entries()) {
    const at = `[${i}]`
    if (!isObject(tool)) return { must: 'must be an object', at }
    const strange = Object.keys(tool).find((key) => !toolKeys.includes(key))
    if (strange?.toLowerCase() === 'type')
      return { must: 'must be spelt "type"', at: `${at}.${strange}` }
    // Proxies recognise tools of their own by a key alone: `googleSearch`.
    if (strange !== undefined) return { word: strange, at: `${at}.${strange}` }
    const type = field(tool, 'type')
    if (toolTypes.includes(type)) continue
    if (typeof type !== 'string' || type.length > 64) {
      return { must: 'must be a word of at most 64 characters', at: `${at}.type` }
    }
    return { word: type, at: `${at}.type` }
  }
  return undefined
}

/** An object of the known keys, each with what its value may be; for anything else the operator must list the whole parameter. */
function only(known: Readonly<Record<string, (value: unknown) => boolean>>): Check {
  return (value, name) => {
    if (!isObject(value)) return { must: 'must be an object' }
    for (const [key, inner] of Object.entries(value)) {
      const isKnown = Object.hasOwn(known, key)
      if (!isKnown || (inner !== null && !known[key]?.(inner))) return { word: name, at: `.${key}` }
    }
    return undefined
  }
}

const anything = (): boolean => true
const isBoolean = (value: unknown): boolean => typeof value === 'boolean'
const isNumber = (value: unknown): boolean => typeof value === 'number'
const isWord = (value: unknown): boolean => typeof value === 'string' && value.length <= 64
const isShort = (value: unknown): boolean => isBoolean(value) || isNumber(value) || isWord(value)
const isOneOf =
  (...words: readonly unknown[]) =>
  (value: unknown): boolean =>
    words.includes(value)

export const responseFormat = only({
  type: isOneOf('text', 'json_object', 'json_schema'),
  json_schema: anything,
  schema: anything,
})

export const structuredOutputs = only({ json: anything, json_object: isBoolean, choice: anything })

export const reasoning = only({
  effort: isShort,
  max_tokens: isNumber,
  enabled: isBoolean,
  exclude: isOneOf(false),
})

export const templateKeywords = only({
  enable_thinking: isShort,
  thinking: isShort,
  thinking_budget: isShort,
  thinking_mode: isShort,
  reasoning_effort: isShort,
  preserve_thinking: isShort,
  clear_thinking: isShort,
  add_vision_id: isShort,
})

export const modalities: Check = (value, name) => {
  if (!Array.isArray(value)) return { must: 'must be a list' }
  return value.every(isOneOf('text', 'audio')) ? undefined : { word: name, at: '' }
}

export const echo: Check = (value, name, scan) => {
  if (value === false) return undefined
  if (value !== true) return { must: 'must be true or false' }
  const probabilities = ['logprobs', 'top_logprobs', 'n_probs'].map(
    (key) => scan.value(key) ?? false,
  )
  return probabilities.every((one) => one === false) ? undefined : { word: name, at: '' }
}

/** Objects (llama.cpp's) may hold media that nobody has counted. */
export const prompt: Check = (value) => {
  const isPlain = (item: unknown): boolean => typeof item === 'string' || typeof item === 'number'
  if (isPlain(value)) return undefined
  const isFlat = (item: unknown): boolean =>
    isPlain(item) || (Array.isArray(item) && item.every(isPlain))
  if (Array.isArray(value) && value.every(isFlat)) return undefined
  return { must: 'must be a text, a list of texts, or token ids' }
}

const streamKeys = ['include_usage', 'include_obfuscation', 'continuous_usage_stats'] as const

export const streamOptions: Check = (value) => {
  if (!isObject(value)) return { must: 'must be an object or null' }
  for (const [key, inner] of Object.entries(value)) {
    const at = `.${key}`
    if (!(streamKeys as readonly string[]).includes(key)) return { unknown: at }
    if (inner !== null && typeof inner !== 'boolean') return { must: 'must be true or false', at }
  }
  return undefined
}

/** `stream_options` as JSON text, written anew from what was checked; `own` wins. Returns undefined when it has no members. */
export function writeStreamOptions(
  options: unknown,
  own: Readonly<Record<string, boolean>>,
): string | undefined {
  const written: Record<string, boolean> = {}
  for (const key of streamKeys) {
    const value = own[key] ?? field(options, key)
    if (typeof value === 'boolean') written[key] = value
  }
  return Object.keys(written).length > 0 ? JSON.stringify(written) : undefined
}
