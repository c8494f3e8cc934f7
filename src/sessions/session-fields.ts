// The fields with which a session is created or changed: the schema that checks a body, with the bounds and sentences
// that docs/api.md and the OpenAPI document show.

import { z } from '../config/schema.ts'

/** Half of a surrogate pair would come back from Redis as another character. */
const anyText = z
  .string({ error: 'write text' })
  .refine((value) => value.isWellFormed(), { error: 'write whole Unicode characters' })
/** Counts characters, as JSON Schema does; most texts are short enough however they are counted. */
const text = (most: number) =>
  anyText
    .refine((value) => value.length <= most || Array.from(value).length <= most, {
      error: `write at most ${most} characters`,
    })
    .meta({ maxLength: most })

const mostPairs = 16
const pairs = z
  .record(text(64), text(512), {
    error: 'write an object of texts of at most 512 characters, with keys of at most 64',
  })
  .refine((all) => Object.keys(all).length <= mostPairs, {
    error: `write at most ${mostPairs} pairs`,
  })
  .meta({ maxProperties: mostPairs })
// Zod would silently drop this key.
const metadata = z
  .unknown()
  .refine((value) => !Object.hasOwn(Object(value), '__proto__'), {
    error: 'write another key than __proto__',
  })
  .pipe(pairs)

export const sessionSchema = z.strictObject({
  title: text(200).nullable().optional().describe('For people.'),
  model: z
    .string({ error: 'write the id of a model' })
    .nullable()
    .optional()
    .describe("Id or alias of a model that the key may use; kept as the model's id."),
  instructions: anyText
    .nullable()
    .optional()
    .describe('System message of every turn; at most `limits.instructions` (32 KiB of UTF-8).'),
  metadata: metadata
    .nullable()
    .optional()
    .describe(
      'At most 16 pairs; keys of up to 64 characters, values of up to 512. A change replaces all pairs.',
    ),
})
