// Makes the tables of bodies in docs/api.md: types and bounds come from the schemas that check the bodies, with a
// sentence for each field. A field without a sentence, or a sentence without a field, is an error.

import type { ZodObject } from 'zod'
import { z } from '../src/config/schema.ts'
import * as entry from '../src/plugins/account/entry.ts'
import * as accounts from '../src/plugins/admin/accounts.ts'
import * as keyFields from '../src/accounts/key-fields.ts'
import * as keys from '../src/plugins/admin/keys.ts'
import * as money from '../src/plugins/admin/money.ts'
import { requiredIn, schemaRows } from './schema-rows.ts'

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
  'account-creation': [accounts.creation, account],
  'account-change': [accounts.change, account],
  topup: [
    money.topup,
    {
      amount: 'Balance tokens.',
      note: 'Shown on the transaction.',
      reference:
        'The id of a payment, of visible ASCII characters. In an account, a reference is topped up once, for ever.',
    },
  ],
  adjustment: [
    money.adjustment,
    {
      amount:
        'Balance tokens, not 0. A negative amount takes tokens away, at most what is available.',
      note: 'The reason. Shown on the transaction.',
      type: 'By default `adjustment`. A `refund` gives back what was spent: more than 0, and at most that.',
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
      'limits.requests_per_minute': 'Requests that ask a model.',
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
    const rows = schemaRows(schemaOf(schema, 'output'), requiredIn(schemaOf(schema, 'input')))
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

function schemaOf(schema: ZodObject, io: 'input' | 'output'): object {
  return z.toJSONSchema(schema, { io, unrepresentable: 'any' })
}
