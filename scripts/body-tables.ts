// Makes the tables of bodies in docs/api.md: types and bounds come from the schemas that check the bodies, with a
// sentence for each field. A field without a sentence, or a sentence without a field, is an error.

import type { ZodObject } from 'zod'
import { z } from '../src/config/schema.ts'
import * as entry from '../src/plugins/account/entry.ts'
import * as accounts from '../src/plugins/admin/accounts.ts'
import * as keyFields from '../src/accounts/key-fields.ts'
import * as keys from '../src/plugins/admin/keys.ts'
import * as money from '../src/plugins/admin/money.ts'
import { schema as sessionFields } from '../src/plugins/sessions/resource.ts'

type Sentences = Readonly<Record<string, string>>

const budgetFields: Sentences = {
  'budget.tokens': 'Balance tokens for each window.',
  'budget.every':
    'The window: a calendar day, a week from Monday, or a month, in `metering.time_zone`.',
}

const account: Sentences = {
  name: 'The name for people. No other account may have it; it must not begin with `acct_`.',
  plan: 'A plan of gateway.yaml; `default` if the creation names none.',
  status: '`suspended`: every request is refused; running streams end within about a second.',
  external_id:
    "The account's id in your own system. No other account may have it; null removes it.",
  metadata:
    'At most 16 pairs; keys of up to 64 characters, values of up to 512. A change replaces all pairs.',
  budget: 'A cap on what all keys of the account may spend together; null removes it.',
  ...budgetFields,
}

const bodies: Readonly<Record<string, readonly [ZodObject, Sentences]>> = {
  'session-fields': [
    sessionFields,
    {
      title: 'At most 200 characters.',
      model: "Id or alias of a model that the key may use; kept as the model's id.",
      instructions:
        'System message of every turn; at most `limits.instructions` (32 KiB of UTF-8).',
      metadata:
        'At most 16 pairs; keys of up to 64 characters, values of up to 512. A change replaces all pairs.',
    },
  ],
  'account-creation': [accounts.creation, account],
  'account-change': [accounts.change, account],
  topup: [money.topup, { amount: 'Balance tokens.', note: 'Shown on the transaction.' }],
  adjustment: [
    money.adjustment,
    {
      amount:
        'Balance tokens, not 0. A negative amount takes tokens away, at most what is available.',
      note: 'The reason. Shown on the transaction.',
    },
  ],
  'key-creation': [
    keyFields.creation,
    {
      name: 'For people.',
      scopes: 'What the key may call; by default all four.',
      models: 'Ids or aliases of models; `*` allows all models and is the default.',
      expires_at: 'Unix seconds, in the future; null or not given: never.',
      limits: "Narrower than the plan's.",
      'limits.requests_per_minute': 'Requests.',
      'limits.tokens_per_minute': 'Model tokens, of prompts and answers together.',
      'limits.concurrency': 'Generations at the same time.',
      budget: 'A cap on what the key may spend.',
      ...budgetFields,
    },
  ],
  'key-change': [
    keys.change,
    { budget: 'A cap on what the key may spend; null removes it.', ...budgetFields },
  ],
  'key-rotation': [
    keyFields.rotation,
    { grace: 'Seconds for which the old key stays valid; by default 0.' },
  ],
  'portal-link': [
    entry.linking,
    { return_url: 'Where the page leads back to: an address of your own site.' },
  ],
  'key-find': [keys.lookUp, { key: "A key's text." }],
}

export function bodyTables(): Readonly<Record<string, string>> {
  const tables = Object.entries(bodies).map(([name, [schema, sentences]]) => {
    const rows = rowsOf(schemaOf(schema, 'output'), schemaOf(schema, 'input').required ?? [], '')
    const fields = rows.map(({ path }) => path)
    if (fields.toSorted().join() !== Object.keys(sentences).toSorted().join()) {
      throw new Error(`${name}: these fields need a sentence each: ${fields.join(', ')}`)
    }
    const lines = rows.map(
      ({ path, type, isNeeded }) =>
        `| \`${path}\` | ${type} | ${isNeeded ? 'yes' : 'no'} | ${sentences[path]} |`,
    )
    return [
      name,
      ['| field | type | needed | |', '|---|---|---|---|', ...lines].join('\n'),
    ] as const
  })
  return Object.fromEntries(tables)
}

/** The part of JSON Schema that these bodies use. */
interface Schema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
}

function schemaOf(schema: ZodObject, io: 'input' | 'output'): Schema {
  return z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Schema
}

interface Row {
  readonly path: string
  readonly type: string
  readonly isNeeded: boolean
}

function rowsOf(schema: Schema, needed: readonly string[], at: string): readonly Row[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const block = field.anyOf?.find(({ properties }) => properties) ?? field
    return [
      { path: at + name, type: typeOf(field), isNeeded: needed.includes(name) },
      ...rowsOf(block, block.required ?? [], `${at}${name}.`),
    ]
  })
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
