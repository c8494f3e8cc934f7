// Bodies of the admin API: one JSON object judged by a schema, each fault in the words of the contract with its field.

import { z } from '../config/schema.ts'
import type { Exchange } from '../exchange.ts'
import { parseFields } from '../http/fields.ts'

/** No body counts as `{}`. Throws `invalid_json`, `missing_parameter`, `unknown_parameter`, `invalid_parameter`. */
export function parseBody<S extends z.ZodObject>({ body }: Exchange, schema: S): z.output<S> {
  return parseFields(body, schema)
}

/** Text for people: without control characters, which would end up on an operator's terminal. */
export function printable(maxLength: number) {
  return z
    .string()
    .max(maxLength, { error: `write at most ${maxLength} characters` })
    .regex(/^[^\p{Cc}\p{Cs}]*$/u, { error: 'write text without control characters' })
}
