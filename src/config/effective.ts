// The effective configuration, for `tollgate check --print`: the file's own notation with every default filled in
// and every secret masked. Except for the secrets, the output is a valid gateway.yaml again.

import { defaultOf, elementOf, optionsOf, shapeOf, valueOf } from './shape.ts'
import type { Schema } from './schema.ts'

const mask = '********'

/** A file's values with defaults, secrets masked. */
export function effectiveOf(schema: Schema, given: unknown): unknown {
  const value = given === undefined ? defaultOf(schema) : given
  const options = optionsOf(schema)
  const kind = options.find((option) => option.kind !== undefined)?.kind
  if (kind === 'secret') return value === '' || value === undefined ? value : mask
  // The loader keeps decimals as text, to be exact; here they are shown as numbers, as their defaults are.
  if (kind === 'decimal' && String(Number(value)) === value) return Number(value)
  if (typeof value === 'string') return kind === 'url' ? maskUrl(value) : value
  if (typeof value !== 'object' || value === null) return value
  const cores = options.map(({ core }) => core)
  if (Array.isArray(value)) {
    const element = cores.map(elementOf).find((found) => found)
    return element ? value.map((item) => effectiveOf(element, item)) : value
  }
  return effectiveBlock(
    value,
    cores.find((core) => ['object', 'record'].includes(core._zod.def.type)),
  )
}

function effectiveBlock(value: object, core: Parameters<typeof shapeOf>[0] | undefined): unknown {
  if (!core) return value
  const shape = shapeOf(core)
  const inner = valueOf(core)
  const given = new Map<string, unknown>(Object.entries(value))
  const keys = inner ? given.keys() : Object.keys(shape)
  const out: [string, unknown][] = []
  for (const key of keys) {
    const schema = inner ?? shape[key]
    const shown = schema && effectiveOf(schema, given.get(key))
    if (shown !== undefined) out.push([key, shown])
  }
  return Object.fromEntries(out)
}

/** Masks a password, and in the query every value but `api-version` and `db`, because it may be a key. */
function maskUrl(text: string): string {
  const isPath = text.startsWith('/')
  const url = URL.parse(text, isPath ? 'http://host' : undefined)
  if (!url) return text
  const shown = [...url.searchParams].filter(([name]) => name !== 'api-version' && name !== 'db')
  if (!url.password && shown.length === 0) return text
  if (url.password) url.password = mask
  for (const [name, value] of shown) {
    // A parameter without a value may be the secret itself, as in `?KEY`.
    if (value === '') url.searchParams.delete(name)
    url.searchParams.set(value === '' ? mask : name, mask)
  }
  return isPath ? url.href.slice(url.origin.length) : url.href
}
