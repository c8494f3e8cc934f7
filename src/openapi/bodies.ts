// The bodies of requests as JSON Schemas. They are made from the schema that checks the body, where there is one; from
// the table of parameters, where the body goes to a backend; else from the fields below, which the fuzz compares with
// the parser.

import type { EndpointRow } from '../config/endpoints.ts'
import { z } from '../config/schema.ts'
import { rulesOf } from '../chat/parameter-check.ts'
import { ownKeys } from '../sessions/sending/parse-send.ts'
import { sessionSchema } from '../sessions/session-fields.ts'
import {
  either,
  flag,
  listOf,
  oneOf,
  orNull,
  ref,
  schemaOf,
  text,
  textLike,
  unlinked,
} from './fields.ts'
import type { Fields, JsonSchema } from './fields.ts'
import type { Operation } from './operation.ts'

type Body = NonNullable<Operation['body']>

export const sessionBody: Body & { readonly kind: 'json' } = {
  kind: 'json',
  schema: zodBody(sessionSchema, 'output'),
  fields: 'schema',
  isOptional: true,
}

/** The JSON Schema of what a body may be. */
export function zodBody(schema: z.ZodType, io: 'input' | 'output' = 'input'): JsonSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
  return rest
}

/** The schemas of the parameters that the gateway itself reads. */
const schemas: Readonly<Record<string, (why: string) => JsonSchema>> = {
  stream: (why) => ({ type: ['boolean', 'null'], description: why }),
  stream_options: (why) => ({ type: ['object', 'null'], description: why }),
  ...Object.fromEntries(
    ['max_tokens', 'max_completion_tokens', 'n', 'best_of'].map((name) => [
      name,
      (why: string) => ({ type: ['integer', 'null'], minimum: 1, description: why }),
    ]),
  ),
}

const someText: JsonSchema = { type: 'string', minLength: 1 }
const some = (title: string): JsonSchema => ({ type: 'array', items: ref(title), minItems: 1 })

const sendFields: Fields = {
  'content?': {
    kind: 'text or list of parts',
    schema: { anyOf: [someText, some('Part'), { type: 'null' }] },
    says: "The user's message; not empty. [Parts](#parts-of-a-message): text, images, files.",
  },
  'messages?': {
    kind: 'list, 1 to 256 entries',
    schema: { type: ['array', 'null'], items: ref('Turn'), minItems: 1, maxItems: 256 },
    says: 'New messages with the roles `user`, `assistant` and `tool`; the last one must not be `assistant`.',
  },
  'model?': orNull(
    text(
      "Id or alias. Not given: the session's; if it has none, the first model that serves chat and that the key may use.",
    ),
  ),
  'stream?': {
    ...orNull(flag()),
    kind: 'true, false or null',
    says: 'False: the finished message as JSON. Not given: JSON if `Accept` names `application/json` and not `text/event-stream`, else a stream.',
  },
  'on_disconnect?': {
    ...orNull(oneOf('continue cancel')),
    kind: '`continue` or `cancel`',
    says: 'What happens to the answer when the client leaves; by default `continue`.',
  },
}

/** What a client may send as `messages`, by role. */
export const turn: JsonSchema = {
  anyOf: [
    schemaOf({
      role: oneOf('user'),
      content: { ...text(), schema: { anyOf: [someText, some('Part')] } },
      'name?': orNull(text()),
    }),
    schemaOf({
      role: oneOf('assistant'),
      'content?': orNull(either([text(), listOf(ref('Text part'))])),
      'tool_calls?': orNull(listOf(ref('Tool call'))),
      'name?': orNull(text()),
    }),
    schemaOf({
      role: oneOf('tool'),
      content: { ...text(), schema: { anyOf: [{ type: 'string' }, some('Text part')] } },
      tool_call_id: { ...text(), schema: { ...someText, maxLength: 256 } },
      'name?': orNull(text()),
    }),
  ],
}

const ownSendFields = schemaOf(sendFields)

export const sendBody: Body = {
  kind: 'json',
  fields: sendFields,
  schema: {
    ...ownSendFields,
    properties: {
      ...parametersOf('chat', (name) => ownKeys.has(name) && name !== 'messages'),
      ...(ownSendFields['properties'] as JsonSchema),
    },
    anyOf: [{ required: ['content'] }, { required: ['messages'] }],
  },
}

/** Other parameters are not ruled out: the operator may let them pass, by a model's `extra_parameters`. */
export function chatBody({ endpoint, required }: EndpointRow): Body {
  const own: JsonSchema = {
    model: { type: 'string', description: 'Id or alias of a model.' },
    ...(required === 'messages' && { messages: { type: 'array', items: { type: 'object' } } }),
  }
  return {
    kind: 'json',
    schema: {
      type: 'object',
      properties: { ...parametersOf(endpoint), ...own },
      required: ['model', required],
    },
  }
}

/** Parameters that pass by themselves; what they may be is said in words. */
function parametersOf(
  endpoint: EndpointRow['endpoint'],
  isWanted: (name: string) => boolean = () => true,
): JsonSchema {
  const rows = [...rulesOf(endpoint)].filter(
    ([name, { way }]) => way !== 'never' && way !== 'word' && isWanted(name),
  )
  return Object.fromEntries(
    rows.map(([name, { why }]) => [name, schemas[name]?.(why) ?? { description: unlinked(why) }]),
  )
}

const mostExpiryS = 315_360_000

const formFields: Fields = {
  'session_id?': text('Required: a field before the file, or in the query.'),
  file: {
    kind: 'file',
    schema: { type: 'string', contentMediaType: 'application/octet-stream' },
    says: 'Required, exactly one, with a file name.',
  },
  'purpose?': textLike(
    '^[a-z][a-z0-9_-]{0,63}$',
    'A word of at most 64 characters (`a-z`, `0-9`, `_`, `-`); by default `user_data`.',
  ),
  'expires_after?': {
    kind: 'whole number',
    schema: { type: 'integer', minimum: 1, maximum: mostExpiryS },
    says: `Seconds, 1 to ${mostExpiryS}. OpenAI's \`expires_after[anchor]\` and \`expires_after[seconds]\` work too.`,
  },
  'sha256?': textLike('^[0-9a-fA-F]{64}$', '64 hex digits, before or after the file.'),
}

export const uploadBody: Body = {
  kind: 'form',
  schema: schemaOf(formFields),
  fields: formFields,
}
