// The fields of an object of the API, each with its type and a sentence. docs/api.md has them as a table, the OpenAPI
// document as a schema: both are made from what stands here once, a line a field.

/** A part of a JSON Schema, as OpenAPI 3.1 takes it. */
export type JsonSchema = Readonly<Record<string, unknown>>

export interface Field {
  readonly schema: JsonSchema
  /** The type in words, for docs/api.md; a test compares answers with it. */
  readonly kind: string
  /** One line of Markdown; '' where the name says it all. */
  readonly says: string
  /** Of an object whose members are documented too. */
  readonly fields?: Fields
}

/** By name. A name that ends in `?` may be absent. */
export type Fields = Readonly<Record<string, Field>>

const simple =
  (kind: string, schema: JsonSchema) =>
  (says = ''): Field => ({ kind, schema, says })

export const text = simple('text', { type: 'string' })
export const flag = simple('boolean', { type: 'boolean' })
export const number = simple('number', { type: 'number' })
export const whole = simple('whole number', { type: 'integer' })
export const seconds = simple('Unix seconds', { type: 'integer', minimum: 0 })
/** An object of texts, by names that somebody chose. */
export const texts = simple('object', { type: 'object', additionalProperties: { type: 'string' } })
export const nothing = simple('null', { type: 'null' })

/** A text that matches a regular expression. */
export function textLike(pattern: string, says = ''): Field {
  return { ...text(says), schema: { type: 'string', pattern } }
}

/** An id: this prefix and 32 hex digits. */
export function id(prefix: string, says = ''): Field {
  return textLike(`^${prefix}_[0-9a-f]{32}$`, says)
}

/** One of these words, separated by spaces. */
export function oneOf(words: string, says = ''): Field {
  const all = words.split(' ')
  const kind = all.map((word) => `\`${word}\``).join(', ')
  const schema = all.length === 1 ? { const: words } : { enum: all }
  return { kind, schema: { type: 'string', ...schema }, says }
}

export function listOf(items: Field | JsonSchema, says = ''): Field {
  return { kind: 'list', schema: { type: 'array', items: schemaIn(items) }, says }
}

/** An object with these members. */
export function inner(fields: Fields, says = ''): Field {
  return { kind: 'object', schema: schemaOf(fields), says, fields }
}

/** An object that has a title of its own. */
export function objectOf(title: string, says = ''): Field {
  return { kind: 'object', schema: ref(title), says }
}

/** An object of which only the schema tells more. */
export function anyObject(says = ''): Field {
  return { kind: 'object', schema: { type: 'object' }, says }
}

/** One of these types. */
export function either(fields: readonly Field[], says = ''): Field {
  const kind = fields.map((field) => field.kind).join(', ')
  return { kind, schema: { anyOf: fields.map(({ schema }) => schema) }, says }
}

export function orNull(field: Field): Field {
  return { ...field, kind: `${field.kind} or null`, schema: nullable(field.schema) }
}

function nullable(schema: JsonSchema): JsonSchema {
  const { type, enum: words } = schema
  if (typeof type !== 'string' || 'const' in schema) {
    return { anyOf: [schema, { type: 'null' }] }
  }
  return {
    ...schema,
    type: [type, 'null'],
    ...(Array.isArray(words) && { enum: [...words, null] }),
  }
}

/** Refers to an object of objects.ts by its title in docs/api.md. */
export function ref(title: string): JsonSchema {
  return { $ref: `#/components/schemas/${componentName(title)}` }
}

/** A page of such objects. */
export function listOfObjects(title: string): JsonSchema {
  const data = { type: 'array', items: ref(title) }
  return { allOf: [ref('List'), { type: 'object', properties: { data } }] }
}

/** `Usage row` as UsageRow. */
export function componentName(title: string): string {
  return title.replaceAll(/(?:^| )(\w)/g, (_all, first: string) => first.toUpperCase())
}

/** Other fields may come with a later version, so they are not ruled out. */
export function schemaOf(fields: Fields): JsonSchema {
  const entries = Object.entries(fields)
  const required = entries.map(([name]) => name).filter((name) => !name.endsWith('?'))
  const properties = entries.map(([name, field]) => [
    name.replace('?', ''),
    described(field.schema, field.says),
  ])
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required }),
  }
}

/** With the sentence as a description; pages that it links to are not part of the document. */
function described(schema: JsonSchema, says: string): JsonSchema {
  return says === '' ? schema : { ...schema, description: unlinked(says) }
}

/** `[errors.md](errors.md)` as `errors.md`. */
export function unlinked(markdown: string): string {
  return markdown.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
}

function schemaIn(given: Field | JsonSchema): JsonSchema {
  return 'kind' in given ? (given as Field).schema : given
}
