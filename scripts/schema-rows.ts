// The rows of a table of fields, from the JSON Schema of a body: types and bounds in words. Knows the part of JSON Schema
// that these bodies use.

interface Schema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly description?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
}

export interface SchemaRow {
  readonly path: string
  readonly type: string
  readonly isNeeded: boolean
  /** The schema's own sentence; '' when it has none. */
  readonly says: string
}

/** `given` is a JSON Schema; `needed` are its fields that must be there. */
export function schemaRows(
  given: object,
  needed: readonly string[] = requiredIn(given),
  at = '',
): readonly SchemaRow[] {
  const { properties = {} } = given as Schema
  return Object.entries(properties).flatMap(([name, field]) => {
    // An object that may be null.
    const block = field.anyOf?.find((one) => one.properties) ?? field
    return [
      {
        path: at + name,
        type: typeOf(field),
        isNeeded: needed.includes(name),
        says: field.description ?? '',
      },
      ...schemaRows(block, requiredIn(block), `${at}${name}.`),
    ]
  })
}

export function requiredIn(schema: object): readonly string[] {
  return (schema as Schema).required ?? []
}

function typeOf(schema: Schema): string {
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(', or ')
  if (schema.enum) return schema.enum.map((word) => `\`${word}\``).join(', ')
  const { type } = schema
  if (Array.isArray(type)) return type.map((one) => typeOf({ ...schema, type: one })).join(' or ')
  switch (type) {
    case 'string':
      return `text${range(schema.minLength, schema.maxLength, ' characters')}`
    case 'integer':
      return `whole number${range(schema.minimum, schema.maximum, '')}`
    case 'array':
      return `list of ${typeOf(schema.items ?? {})}${range(schema.minItems, schema.maxItems, ' entries')}`
    case 'object':
      return schema.properties ? 'object' : 'object of texts'
    case 'null':
      return 'null'
    default:
      throw new Error(`no words for ${JSON.stringify(schema)}`)
  }
}

/** Whole numbers end at 2^53 − 1 in any case. */
function range(least: number | undefined, most: number | undefined, unit: string): string {
  const isLow = least !== undefined && least > Number.MIN_SAFE_INTEGER
  const isHigh = most !== undefined && most < Number.MAX_SAFE_INTEGER
  if (isLow && isHigh) return `, ${least} to ${most}${unit}`
  if (isHigh) return `, ${most}${unit} at most`
  return isLow ? `, ${least}${unit} at least` : ''
}
