// The OpenAPI 3.1 document of the public port: the operations of the plugins that are on, with the objects, headers and
// codes of their answers. It says nothing of what is configured beside that: anybody may read it.

import { errorTable } from '../error-table.ts'
import type { ErrorCode } from '../errors.ts'
import { turn } from './bodies.ts'
import { componentName, ref, schemaOf, unlinked } from './fields.ts'
import type { Fields, JsonSchema } from './fields.ts'
import { groups } from './groups.ts'
import type { Group } from './groups.ts'
import { headerNamed, requestHeaders, responseHeaders } from './headers.ts'
import { objects } from './objects.ts'
import { parseLine } from './operation.ts'
import type { GoodAnswer, Operation } from './operation.ts'
import { events, pieces } from './pieces.ts'
import { refusalsOf } from './refusals.ts'

const about = `The public port of this gateway. Every \`GET\` also answers \`HEAD\`. Times are Unix seconds, amounts of money whole balance
tokens. Objects may get more fields with later versions. Every answer has \`X-Request-Id\`.`

/** `isOn` tells of each plugin whether it is switched on. */
export function openapi(isOn: (plugin: string) => boolean): JsonSchema {
  const shown = groups.filter(({ plugin }) => isOn(plugin))
  const shared = new SharedResponses()
  const paths: Record<string, Record<string, unknown>> = {}
  for (const group of shown) {
    for (const [line, operation] of Object.entries(group.operations)) {
      const { method, paths: all } = parseLine(line)
      for (const [i, path] of all.entries()) {
        const item = (paths[templated(path)] ??= serversOf(path))
        item[method.toLowerCase()] = {
          ...operationOf(operation, { group, path, shared }),
          // Ids are unique, and the second path does the same.
          ...(i > 0 && { operationId: `${operation.id}${i + 1}` }),
        }
      }
    }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Tollgate', version: '1', description: unlinked(about) },
    servers: [{ url: '/' }],
    tags: shown.map(({ title, says }) => ({ name: title, description: says })),
    paths,
    components: {
      securitySchemes: {
        key: {
          type: 'http',
          scheme: 'bearer',
          description:
            'An API key, `tg_live_…`. Each operation names the scope that the key needs.',
        },
      },
      schemas: schemas(),
      headers: Object.fromEntries(
        responseHeaders.flatMap(({ names, says, schema }) =>
          names.map((name) => [name, { description: unlinked(says), schema }]),
        ),
      ),
      parameters: Object.fromEntries(
        requestHeaders.flatMap(({ names, says, schema }) =>
          names.map((name) => [name, { name, in: 'header', description: unlinked(says), schema }]),
        ),
      ),
      responses: shared.components,
    },
  }
}

/** `/v1/models/*` as `/v1/models/{id}`. */
export function templated(path: string): string {
  return path.replace('*', '{id}').replaceAll(/:(\w+)/g, '{$1}')
}

function serversOf(path: string): Record<string, unknown> {
  if (!path.startsWith('/api/')) return {}
  const mount = { url: '/v1', description: 'The same, for clients whose base URL ends in /v1.' }
  return { servers: [{ url: '/' }, mount] }
}

interface Within {
  readonly group: Group
  readonly path: string
  readonly shared: SharedResponses
}

function operationOf(operation: Operation, { group, path, shared }: Within): JsonSchema {
  const { id, title, access, text = '', after = '', body, replies } = operation
  const unscoped = { anybody: 'Needs no key.', 'any-key': 'Needs any key.' }
  const needs =
    unscoped[access as keyof typeof unscoped] ?? `Needs a key with the scope \`${access}\`.`
  const description = [needs, text, after].filter((one) => one !== '').join('\n\n')
  const answers = Object.entries(replies).map(([status, reply]) => [
    status,
    answerOf(reply, operation),
  ])
  return {
    operationId: id,
    summary: title,
    description: unlinked(description),
    tags: [group.title],
    security: securityOf(access),
    parameters: [
      ...pathParameters(path, operation, group),
      ...queryParameters(operation),
      ...headerParameters(operation),
    ],
    ...(body && { requestBody: requestBodyOf(body) }),
    responses: { ...Object.fromEntries(answers), ...refusalResponses(operation, shared) },
  }
}

function securityOf(access: Operation['access']): readonly object[] {
  if (access === 'anybody') return []
  return [{ key: access === 'any-key' ? [] : [access] }]
}

function pathParameters(path: string, { params = {} }: Operation, { id }: Group): JsonSchema[] {
  const known: Record<string, JsonSchema> = {
    ...(id && { id: { schema: idSchema(id.prefix), description: id.says } }),
    mid: { schema: idSchema('msg'), description: "A message's id." },
  }
  const names = [...path.matchAll(/:(\w+)|(\*)/g)].map(([, name, star]) => name ?? star ?? '')
  return names.map((name) => {
    const own = { schema: { type: 'string', minLength: 1 }, description: params[name] ?? '' }
    const shown = name === '*' ? 'id' : name
    return { name: shown, in: 'path', required: true, ...(params[name] ? own : known[name]) }
  })
}

const idSchema = (prefix: string) => ({ type: 'string', pattern: `^${prefix}_[0-9a-f]{32}$` })

function queryParameters({ query = {} }: Operation): JsonSchema[] {
  return Object.entries(query).map(([name, { schema, says }]) => ({
    name,
    in: 'query',
    description: unlinked(says),
    schema,
  }))
}

function headerParameters({ headers = [], repeats, access }: Operation): JsonSchema[] {
  const always = access === 'anybody' ? [] : ['X-Client-Request-Id']
  const names = [...headers, ...(repeats ? ['Idempotency-Key'] : []), ...always]
  return names.map((name) => {
    // Throws when headers.ts has no such header.
    headerNamed(requestHeaders, name)
    return { $ref: `#/components/parameters/${name}` }
  })
}

function requestBodyOf(body: NonNullable<Operation['body']>): JsonSchema {
  const type = body.kind === 'json' ? 'application/json' : 'multipart/form-data'
  const isOptional = body.kind === 'json' && body.isOptional === true
  return { required: !isOptional, content: { [type]: { schema: body.schema } } }
}

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

function answerOf({ says, content, headers = [] }: GoodAnswer, operation: Operation): JsonSchema {
  const { repeats, access } = operation
  const more = [
    ...(repeats ? ['Idempotent-Replayed'] : []),
    ...(access === 'anybody' ? [] : ofLimits),
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

function refusalResponses(operation: Operation, shared: SharedResponses): JsonSchema {
  const refusals = refusalsOf(operation)
  const statuses = new Set([...refusals.keys(), ...(operation.passesRefusals ? passed : [])])
  const all = [...statuses]
    .toSorted((a, b) => a - b)
    .map((status) => {
      const codes = refusals.get(status) ?? []
      const isPassed = operation.passesRefusals === true && passed.includes(status)
      return [status, shared.referTo(status, refusalOf(status, codes, isPassed))]
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
class SharedResponses {
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

function schemas(): JsonSchema {
  const named = Object.entries<Fields>({ ...objects, ...pieces })
  return {
    ...Object.fromEntries(named.map(([title, fields]) => [componentName(title), schemaOf(fields)])),
    Part: { anyOf: [ref('Text part'), ref('Image part'), ref('File part')] },
    Turn: turn,
    ...events,
    BackendError: {
      type: 'object',
      properties: { error: {} },
      required: ['error'],
      description: 'As the backend wrote it, secrets replaced.',
    },
  }
}
