// What an operation answers, in the OpenAPI document: its good answers, and its refusals, by status.

import { errorTable } from '../error-table.ts'
import type { ErrorCode } from '../errors.ts'
import { ref, unlinked } from './fields.ts'
import type { JsonSchema } from './fields.ts'
import { headerNamed, responseHeaders } from './headers.ts'
import type { GoodAnswer, Operation } from './operation.ts'
import { refusalsOf } from './refusals.ts'

/** `required` are names of headers that every answer of its status has. */
function headersOf(names: readonly string[], required: readonly string[] = []): JsonSchema {
  const all = ['X-Request-Id', ...names]
  return Object.fromEntries(
    all.map((name) => {
      const { says, schema } = headerNamed(responseHeaders, name)
      const isRequired = name === 'X-Request-Id' || required.includes(name)
      return isRequired
        ? [name, { description: unlinked(says), required: true, schema }]
        : [name, { $ref: `#/components/headers/${name}` }]
    }),
  )
}

const ofLimits = ['limit', 'remaining', 'reset'].map((what) => `x-ratelimit-${what}-requests`)

export function answerOf(
  { says, content, headers = [] }: GoodAnswer,
  operation: Operation,
): JsonSchema {
  const { repeats, access } = operation
  const more = [
    ...(repeats ? ['Idempotent-Replayed'] : []),
    ...(access === 'anybody' || access === 'cookie' ? [] : ofLimits),
  ]
  const types = Object.entries(content ?? {}).map(([type, schema]) => [type, { schema }])
  return {
    description: capital(unlinked(says)),
    headers: headersOf([...headers, ...more]),
    ...(types.length > 0 && { content: Object.fromEntries(types) }),
  }
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

/** A backend's own refusal has these statuses (chat/backend-status.ts). */
const passed = [400, 404, 413, 422]

export function refusalResponses(operation: Operation, shared: SharedResponses): JsonSchema {
  const refusals = refusalsOf(operation)
  const statuses = new Set([...refusals.keys(), ...(operation.passesRefusals ? passed : [])])
  const all = [...statuses]
    .toSorted((a, b) => a - b)
    .map((status) => {
      const codes = refusals.get(status) ?? []
      const isPassed = operation.passesRefusals === true && passed.includes(status)
      const refusal = refusalOf(status, codes, isPassed)
      const mayBePage = operation.refusesWithPage === true && mustHave[status] === wait
      return [status, shared.referTo(status, mayBePage ? orPage(refusal) : refusal)]
    })
  return Object.fromEntries(all)
}

function refusalOf(
  status: number,
  codes: readonly (readonly [ErrorCode, string])[],
  isPassed: boolean,
): JsonSchema {
  const lines = codes.map(([code, note]) => {
    const { message } = errorTable[code]
    return `- \`${code}\`${unlinked(note)}: ${message}`
  })
  if (isPassed) lines.push("- The backend's own refusal.")
  const own = errorWith(codes.map(([code]) => code))
  const schema = isPassed
    ? { anyOf: [...(codes.length > 0 ? [own] : []), ref('Backend error')] }
    : own
  return {
    description: lines.join('\n'),
    headers: headersOf(mayHave(status), mustHave[status]),
    content: { 'application/json': { schema } },
  }
}

function orPage(refusal: JsonSchema): JsonSchema {
  const page = { 'text/html; charset=utf-8': { schema: { type: 'string' } } }
  return { ...refusal, content: { ...(refusal['content'] as JsonSchema), ...page } }
}

function errorWith(codes: readonly ErrorCode[]): JsonSchema {
  const code = { type: 'string', enum: codes }
  const error = { type: 'object', properties: { code } }
  return { allOf: [ref('Error'), { type: 'object', properties: { error } }] }
}

const wait = ['Retry-After', 'retry-after-ms']
const mustHave: Readonly<Record<number, readonly string[]>> = {
  401: ['WWW-Authenticate'],
  405: ['Allow'],
  429: wait,
  503: wait,
}

function mayHave(status: number): readonly string[] {
  const own = mustHave[status] ?? []
  return [...own, ...(status === 409 ? wait : []), 'X-Should-Retry']
}

/** Operations with the same response refer to one place in the document. */
export class SharedResponses {
  readonly components: Record<string, JsonSchema> = {}
  readonly #names = new Map<string, string>()

  referTo(status: number, response: JsonSchema): JsonSchema {
    const text = JSON.stringify(response)
    const name = this.#names.get(text) ?? this.#add(status, text, response)
    return { $ref: `#/components/responses/${name}` }
  }

  #add(status: number, text: string, response: JsonSchema): string {
    const taken = Object.keys(this.components).filter((one) => one.startsWith(`E${status}`)).length
    const name = taken === 0 ? `E${status}` : `E${status}-${taken + 1}`
    this.#names.set(text, name)
    this.components[name] = response
    return name
  }
}
