// Bodies of resources: one JSON object, checked by a schema; the error names the field at fault (docs/api.md#error).

import { z } from '../config/schema.ts'
import type { GatewayError } from '../errors.ts'
import { scanJson } from './json/scan.ts'
import { invalidParameter, missing, unknown } from './refusals.ts'

/** An empty body counts as `{}`. Throws `invalid_json`, `missing_parameter`, `unknown_parameter`, `invalid_parameter`. */
export function parseFields<S extends z.ZodObject>(body: Buffer, schema: S): z.output<S> {
  const value = body.length === 0 ? {} : objectIn(body, new Set(Object.keys(schema.shape)))
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw toError(result.error.issues, value)
}

/** No control character, no half of a surrogate pair. In ranges: not every reader of the JSON Schema knows `\p{Cc}`. */
const visible = new RegExp(String.raw`^[^\u0000-\u001f\u007f-\u009f\ud800-\udfff]*$`, 'u')

/** Text for people: without control characters, which would end up on an operator's terminal. */
export function printable(maxLength: number) {
  return z
    .string()
    .max(maxLength, { error: `write at most ${maxLength} characters` })
    .regex(visible, { error: 'write text without control characters' })
}

function objectIn(body: Buffer, ownKeys: ReadonlySet<string>): object {
  const scan = scanJson(body, ownKeys)
  return Object.fromEntries([...scan.members.keys()].map((key) => [key, scan.value(key)]))
}

function toError(issues: readonly z.core.$ZodIssue[], body: unknown): GatewayError {
  // A misspelt field is reported as unknown, before the field that is missing because of it.
  const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0]
  if (issue?.code === 'unrecognized_keys') {
    return unknown([...issue.path, issue.keys[0] ?? ''].join('.'))
  }
  const param = issue?.path.join('.') ?? ''
  if (isOfValue(issue?.code) && !isThere(body, issue?.path ?? [])) return missing(param)
  return invalidParameter(param, `"${param}": ${issue?.message ?? 'write another value'}.`)
}

/** What zod reports of a missing field: of a text or a number, of a choice of texts, of a choice of schemas. */
function isOfValue(code: string | undefined): boolean {
  return code === 'invalid_type' || code === 'invalid_value' || code === 'invalid_union'
}

function isThere(body: unknown, path: readonly PropertyKey[]): boolean {
  let value = body
  for (const step of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return false
    value = Reflect.get(value, step)
  }
  return true
}
