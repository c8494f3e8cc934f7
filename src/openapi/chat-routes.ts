// The routes of models and of stateless chat, for docs/api.md and the OpenAPI document.

import { endpoints, fieldsOf } from '../config/endpoints.ts'
import type { EndpointRow } from '../config/endpoints.ts'
import { chatBody } from './bodies.ts'
import { ref } from './fields.ts'
import type { JsonSchema } from './fields.ts'
import { json } from './operation.ts'
import type { Codes, Operation, Operations, GoodAnswer } from './operation.ts'

const models: JsonSchema = {
  type: 'object',
  properties: {
    object: { type: 'string', const: 'list' },
    data: { type: 'array', items: ref('Model') },
  },
  required: ['object', 'data'],
}

export const modelRoutes: Operations = {
  'GET /v1/models': {
    id: 'listModels',
    title: 'List the models that the key may use',
    access: 'any-key',
    replies: {
      200: {
        says: '`{"object": "list", "data": […]}` with a [model](#model) for each id and alias that this key may use. The list has no pages.',
        content: json(models),
      },
    },
  },
  'GET /v1/models/*': {
    id: 'getModel',
    title: 'Show a model',
    access: 'any-key',
    params: { '*': 'An id or an alias; it may have slashes.' },
    replies: {
      200: {
        says: 'one [model](#model). The id is the rest of the path, slashes included.',
        content: json(ref('Model')),
      },
    },
    codes: { model_not_found: '' },
  },
}

/** Of a route that asks a model. */
export const backendCodes: Codes = {
  upstream_rate_limited: '',
  upstream_error: '',
  upstream_auth_error: '',
  upstream_incomplete: '',
  upstream_unavailable: '',
  upstream_timeout: '',
}

const codes: Codes = {
  insufficient_balance: '',
  budget_exceeded: '',
  model_not_allowed: '',
  model_not_found: '',
  concurrency_limit_exceeded: '',
  ...backendCodes,
}

const ofBackend = [
  'Content-Language',
  'openai-processing-ms',
  'openai-version',
  'x-tollgate-balance-low',
]
const plain = { type: 'object', description: "The backend's JSON, byte for byte." }
const events = ref('Plain event')

const whole: GoodAnswer = {
  says: "the backend's JSON byte for byte.",
  content: json(plain),
  headers: ofBackend,
}
const streamed: GoodAnswer = {
  says: 'without `stream`, the backend\'s JSON byte for byte. With `"stream": true`, a [plain stream](#plain-streams).',
  content: { ...json(plain), 'text/event-stream': events },
  headers: ofBackend,
}

const chatText = `OpenAI's Chat Completions; both paths do the same. \`model\` (id or alias) and \`messages\` (a list) are required. All other
parameters, with their bounds, are in [parameters.md](parameters.md). The body goes to the backend byte for byte, except
for the model's name, the limit of the output and \`stream_options\`.`

const chatAfter = `Nothing is stored, and an \`Idempotency-Key\` is ignored. When the client leaves a stream, the generation ends and its
tokens so far are charged; an answer that is not streamed is generated to its end and charged
([money.md](money.md#after-the-charge)). A backend's own 400, 404, 413 or 422 is passed on as the backend wrote it, with
secrets replaced.`

export const chatRoutes: Operations = Object.fromEntries(
  endpoints.map((row) => [`POST ${row.routes.join(', ')}`, operationOf(row)]),
)

function operationOf(row: EndpointRow): Operation {
  const { endpoint, title, generates } = row
  const isChat = endpoint === 'chat'
  return {
    id: isChat ? 'chat' : `create${endpoint[0]?.toUpperCase()}${endpoint.slice(1)}`,
    title,
    access: 'chat',
    headers: ['traceparent', 'tracestate'],
    body: chatBody(row),
    text: isChat ? chatText : textOf(row),
    replies: { 200: generates ? streamed : whole },
    codes,
    passesRefusals: true,
    ...(isChat && { after: chatAfter }),
  }
}

function textOf(row: EndpointRow): string {
  const { endpoint, generates, required } = row
  const more = fieldsOf(row).filter((name) => name !== required)
  const and = more.length > 0 ? ` (and ${more.map((name) => `\`${name}\``).join(', ')})` : ''
  const with_ = generates
    ? `with \`${required}\` instead of \`messages\``
    : `with \`${required}\`${and}; never a stream`
  return `As chat, ${with_}. For models that list \`${endpoint}\` under \`endpoints\`.`
}
