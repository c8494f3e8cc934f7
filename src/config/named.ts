// Keys as code reads them: in camel case, with the unit of a time or a size at the end. `first_byte`, a duration,
// becomes `firstByteMs`; `json_api`, a size, becomes `jsonApiBytes`. The types follow from the schemas, so that a key
// is written down once.

import type { Schema, z } from './schema.ts'
import { optionsOf } from './shape.ts'

type Camel<Key extends string> = Key extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<Camel<Rest>>}`
  : Key

/** A duration is read from a text, a size from a text or a number; both come out as numbers. */
type Unit<S extends Schema> = [Exclude<z.output<S>, undefined>] extends [number]
  ? string extends z.input<S>
    ? number extends z.input<S>
      ? 'Bytes'
      : 'Ms'
    : ''
  : ''

/** The keys of a block by the names that code has for them. */
export type Named<Shape extends z.ZodRawShape> = {
  readonly [Key in keyof Shape & string as `${Camel<Key>}${Unit<Shape[Key]>}`]: Readonly<
    z.output<Shape[Key]>
  >
}

/** `keys` is what the schema's `parse` has returned. */
export function named<Shape extends z.ZodRawShape>(
  { shape }: z.ZodObject<Shape>,
  keys: z.output<z.ZodObject<Shape>>,
): Named<Shape> {
  const entries = Object.entries(keys).map(([key, value]) => [nameOf(key, shape[key]), value])
  return Object.fromEntries(entries) as Named<Shape>
}

function nameOf(key: string, schema: Schema | undefined): string {
  const camel = key.replaceAll(/_(\w)/g, (_all, letter: string) => letter.toUpperCase())
  const kind = schema && optionsOf(schema).find((option) => option.kind !== undefined)?.kind
  return camel + (kind === 'duration' ? 'Ms' : kind === 'size' ? 'Bytes' : '')
}
