// The OpenAPI 3.1 document of the public port: the operations of the plugins that are on, with the objects, headers and
// codes of their answers. It says nothing of what is configured beside that: anybody may read it.

import { turn } from './bodies.ts'
import { componentName, ref, schemaOf, unlinked } from './fields.ts'
import type { Fields, JsonSchema } from './fields.ts'
import { groups } from './groups.ts'
import type { Group } from './groups.ts'
import { headerNamed, requestHeaders, responseHeaders } from './headers.ts'
import { objects } from './objects.ts'
import { parseLine } from './operation.ts'
import type { Operation } from './operation.ts'
import { pageObjects } from './page-objects.ts'
import { events, pieces } from './pieces.ts'
import { SharedResponses, answerOf, refusalResponses } from './responses.ts'

const about = `The public port of this gateway. Every \`GET\` also answers \`HEAD\`. Times are Unix seconds, amounts of money whole balance
tokens. Objects may get more fields with later versions. Every answer has \`X-Request-Id\`.`

/** `isOn` tells of each plugin whether it is switched on; `cookie` is the name of the account page's cookie. */
export function openapi(isOn: (plugin: string) => boolean, cookie: string): JsonSchema {
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
        cookie: {
          type: 'apiKey',
          in: 'cookie',
          name: cookie,
          description: 'What a log-in on the account page has set. No script can read it.',
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

/** The name of the parameter that `*` stands for. */
const restOf = (path: string) => (path.startsWith('/account/') ? 'file' : 'id')

/** `/v1/models/*` as `/v1/models/{id}`. */
export function templated(path: string): string {
  return path.replace('*', `{${restOf(path)}}`).replaceAll(/:(\w+)/g, '{$1}')
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
  const unscoped = {
    anybody: 'Needs no key.',
    'any-key': 'Needs any key.',
    cookie: "Needs the page's cookie.",
  }
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
  if (access === 'cookie') return [{ cookie: [] }]
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
    const shown = name === '*' ? restOf(path) : name
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

function schemas(): JsonSchema {
  const named = Object.entries<Fields>({ ...objects, ...pageObjects, ...pieces })
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
