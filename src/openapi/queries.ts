// The parameters of queries: what docs/api.md has as a table, and the OpenAPI document as parameters. Which of them a
// route takes is said by its plugin; test/docs-api.ts compares both.

import { id, oneOf, seconds, text, textLike, whole } from './fields.ts'
import type { Field, JsonSchema } from './fields.ts'
import type { Query, QueryField } from './operation.ts'

function preset(field: Field, shown: string, more: JsonSchema = {}): QueryField {
  return { ...field, schema: { ...field.schema, ...more }, preset: shown }
}

/** Of a list whose rows have ids of this prefix. */
export function pageQuery(prefix: string, order: 'asc' | 'desc' = 'desc'): Query {
  return {
    limit: preset(
      whole('1 to 100 rows. A page has fewer rows when they are larger than 1 MiB together.'),
      '20',
      { minimum: 1, maximum: 100, default: 20 },
    ),
    after: id(prefix, "The id of a row: the rows after it, in the list's order."),
    before: id(
      prefix,
      "The id of a row: the rows just before it, in the list's order. Not with `after`.",
    ),
    order: preset(
      oneOf(
        'desc asc',
        'By creation. `desc`: newest first; `asc`: oldest first, the default for messages.',
      ),
      '`desc`',
      { default: order },
    ),
  }
}

const mostSeconds = { maximum: 99_999_999_999 }
const format = preset(
  oneOf('json csv', '`csv`: all rows, the oldest first, and none of the parameters of lists.'),
  '`json`',
  { default: 'json' },
)

export const transactionQuery: Query = {
  ...pageQuery('txn'),
  from: preset(seconds('Only what was made at this time or later.'), '', mostSeconds),
  to: preset(seconds('Only what was made before this time.'), '', mostSeconds),
  type: oneOf(
    'topup charge correction adjustment refund repayment allowance',
    'Only transactions of this [type](#transaction).',
  ),
  model: text('Only charges of this model, by its id.'),
  key: id('key', 'Only charges of the key with this id.'),
  reference: textLike(
    String.raw`^[\x21-\x7e]{1,255}$`,
    'Only the top-up of this payment. It is found at once, however old it is.',
  ),
  format,
}

export const usageQuery: Query = {
  from: preset(
    seconds(
      'Unix seconds. All buckets that have a part of the time from `from` to `to` are counted, whole.',
    ),
    '`to` minus 24 hours',
    mostSeconds,
  ),
  to: preset(seconds('Unix seconds, excluded.'), 'now', mostSeconds),
  bucket: preset(oneOf('hour day', '`hour` or `day` (UTC); at most 1000 of them.'), '`hour`', {
    default: 'hour',
  }),
  model: preset(text('Only this model, by its id.'), 'all'),
  key: preset(id('key', 'Only the key with this id.'), 'all'),
  group_by: preset(
    oneOf(
      'model key',
      '`model` or `key`: one row for each model or key in a bucket; not given, one row for each bucket. A bucket without requests has no row.',
    ),
    'none',
  ),
  format,
}

export const streamQuery: Query = {
  starting_after: {
    ...text('The number of the last event that the client has; the header counts if it is sent.'),
    schema: { type: 'string', pattern: String.raw`^\d{1,15}$` },
  },
}
