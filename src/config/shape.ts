// Walks a zod schema and a value together, for what zod does not do: report unknown keys at their place, keep the
// source text of a price, read numbers from texts of the environment, find the files and the secrets.

import { didYouMean, type Path, type Position } from './problem.ts'
import { kinds, type Kind, type Schema, type z } from './schema.ts'
import type { TreeProblem, MapTree, ScalarTree, Tree } from './tree.ts'

/** One alternative that a schema accepts, without the unions, defaults and the like around it. */
interface SchemaOption {
  readonly core: z.core.$ZodTypes
  readonly kind: Kind['kind'] | undefined
  readonly later: readonly string[]
}

export interface FileAt {
  readonly path: Path
  readonly kind: 'certificate file' | 'private key file'
  /** Absolute. */
  readonly file: string
}

export interface Fitted {
  /** Ready for the schema's `safeParse`: unknown and empty keys left out, texts converted if the schema wants numbers or booleans. */
  readonly value: unknown
  readonly problems: readonly TreeProblem[]
  readonly files: readonly FileAt[]
  /** Paths (as JSON) of values that must not be shown. */
  readonly secrets: ReadonlySet<string>
}

/** The alternatives that `schema` accepts, each with its kind. */
export function optionsOf(schema: Schema, outer: Partial<Kind> = {}): readonly SchemaOption[] {
  const core = schema as z.core.$ZodTypes
  const meta = { ...outer, ...kinds.get(schema) }
  const def = core._zod.def
  switch (def.type) {
    case 'optional':
    case 'nullable':
    case 'default':
    case 'prefault':
    case 'nonoptional':
    case 'readonly':
    case 'catch':
      return optionsOf(def.innerType, meta)
    case 'lazy':
      return optionsOf(def.getter(), meta)
    case 'pipe':
      return optionsOf(isTransform(def.in) ? def.out : def.in, meta)
    case 'union':
      return def.options.flatMap((option) => optionsOf(option, meta))
    default:
      return [{ core, kind: meta.kind, later: meta.later ?? [] }]
  }
}

/** The default of a key, in the file's own notation; returns undefined when there is none. */
export function defaultOf(schema: Schema): unknown {
  const def = (schema as z.core.$ZodTypes)._zod.def
  if (def.type === 'default' || def.type === 'prefault') return def.defaultValue
  return 'innerType' in def ? defaultOf(def.innerType) : undefined
}

export function fit(schema: Schema, tree: Tree, absolute: (path: string) => string): Fitted {
  const problems: TreeProblem[] = []
  const files: FileAt[] = []
  const secrets = new Set<string>()
  const visit = (at: Schema | undefined, node: Tree, path: Path): unknown => {
    const options = at ? optionsOf(at) : []
    if (node.kind === 'list') {
      const element = options.map(({ core }) => elementOf(core)).find((found) => found)
      return node.items.map((item, i) => visit(element, item, [...path, i]))
    }
    if (node.kind === 'map') {
      const out: Record<string, unknown> = Object.create(null)
      for (const [key, child, value] of knownEntries(options, node, { path, problems })) {
        out[key] = visit(child, value, [...path, key])
      }
      for (const [key, preset, value] of absentEntries(options, node)) {
        out[key] = visit(preset, value, [...path, key])
      }
      return out
    }
    const kind = options.find((option) => option.kind !== undefined)?.kind
    if (kind === 'secret' || kind === 'url' || node.replaced) secrets.add(JSON.stringify(path))
    if (typeof node.value !== 'string') return kind === 'decimal' ? sourceOf(node) : node.value
    if (!isFileKind(kind) || node.value === '') return fromText(options, node)
    const file = absolute(node.value)
    if (kind !== 'path') files.push({ path, kind, file })
    return file
  }
  return { value: visit(schema, tree, []), problems, files, secrets }
}

type KnownEntry = readonly [key: string, schema: Schema | undefined, value: Tree]

function knownEntries(
  options: readonly SchemaOption[],
  node: MapTree,
  { path, problems }: { readonly path: Path; readonly problems: TreeProblem[] },
): readonly KnownEntry[] {
  const block = options.find(({ core }) => ['object', 'record'].includes(core._zod.def.type))
  const known = block ? Object.keys(shapeOf(block.core)) : []
  const entries: KnownEntry[] = []
  for (const { key, at, value } of node.entries) {
    const child = block && childSchema(block.core, key)
    if (block && !child) {
      const message = block.later.includes(key)
        ? 'is not supported yet; remove it'
        : `unknown key${didYouMean(key, known) || listOf(known)}`
      problems.push({ ...at, path: [...path, key], message })
      continue
    }
    if (child && isNull(value) && !takesNull(child)) {
      problems.push({
        ...at,
        path: [...path, key],
        message: 'is empty; give a value or remove the key',
      })
      continue
    }
    entries.push([key, child, value])
  }
  return entries
}

/** Keys that the file does not give but the walk must visit: defaults that are paths, and empty blocks, which may have such defaults. */
function absentEntries(options: readonly SchemaOption[], node: MapTree): readonly KnownEntry[] {
  const shape = options.map(({ core }) => Object.entries(shapeOf(core))).flat()
  return shape.flatMap(([key, schema]): readonly KnownEntry[] => {
    const isGiven = node.entries.some((entry) => entry.key === key)
    const preset = isGiven ? undefined : presetTree(schema, node.at)
    return preset ? [[key, schema, preset]] : []
  })
}

function presetTree(schema: Schema, at: Position): Tree | undefined {
  const preset = defaultOf(schema)
  const options = optionsOf(schema)
  const isPath = options.some(({ kind }) => kind === 'path')
  if (isPath && typeof preset === 'string') {
    return { kind: 'scalar', at, value: preset, source: preset }
  }
  const isBlock = options.some(({ core }) => core._zod.def.type === 'object')
  const isEmpty = typeof preset === 'object' && preset !== null && Object.keys(preset).length === 0
  return isBlock && isEmpty ? { kind: 'map', at, entries: [] } : undefined
}

function childSchema(core: z.core.$ZodTypes, key: string): Schema | undefined {
  const def = core._zod.def
  if (def.type === 'record') return def.valueType
  if (def.type !== 'object') return undefined
  if (Object.hasOwn(def.shape, key)) return def.shape[key]
  // z.strictObject's catch-all is z.never(), and z.object has none: both mean "no other keys" here.
  return def.catchall && def.catchall._zod.def.type !== 'never' ? def.catchall : undefined
}

export function shapeOf(core: z.core.$ZodTypes): Readonly<Record<string, Schema>> {
  const def = core._zod.def
  return def.type === 'object' ? def.shape : {}
}

export function elementOf(core: z.core.$ZodTypes): Schema | undefined {
  const def = core._zod.def
  return def.type === 'array' ? def.element : undefined
}

export function valueOf(core: z.core.$ZodTypes): Schema | undefined {
  const def = core._zod.def
  return def.type === 'record' ? def.valueType : undefined
}

/**
 * Converts a text from the environment or a file to a number or a boolean if the schema accepts that and does not
 * accept text.
 */
function fromText(options: readonly SchemaOption[], { value, replaced }: ScalarTree): unknown {
  const takes = (type: string) => options.some(({ core }) => typeName(core) === type)
  if (!replaced || typeof value !== 'string' || takes('string')) return value
  const text = value.trim()
  if (takes('number') && /^-?\d{1,15}(\.\d{1,15})?$/.test(text)) return Number(text)
  if (takes('boolean') && (text === 'true' || text === 'false')) return text === 'true'
  return value
}

/** The JSON type that an alternative accepts. */
function typeName(core: z.core.$ZodTypes): string {
  const def = core._zod.def
  return def.type === 'literal' ? typeof def.values[0] : def.type
}

function isFileKind(kind: Kind['kind'] | undefined): kind is 'path' | FileAt['kind'] {
  return kind === 'path' || kind === 'certificate file' || kind === 'private key file'
}

function takesNull(schema: Schema): boolean {
  if ((schema as z.core.$ZodTypes)._zod.def.type === 'nullable') return true
  return optionsOf(schema).some(({ core }) => ['null', 'any', 'unknown'].includes(typeName(core)))
}

function isNull(tree: Tree): boolean {
  return tree.kind === 'scalar' && tree.value === null
}

function sourceOf(node: ScalarTree): unknown {
  return typeof node.value === 'number' ? node.source : node.value
}

function isTransform(schema: Schema): boolean {
  return (schema as z.core.$ZodTypes)._zod.def.type === 'transform'
}

function listOf(known: readonly string[]): string {
  return known.length > 0 && known.length <= 16 ? `; known here: ${known.join(', ')}` : ''
}
