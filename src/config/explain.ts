// Turns zod's findings into sentences for operators: what is wrong, what would be right. Shows a value only if it is in
// the file itself and is not a secret, because messages get into terminals and logs.

import { didYouMean, suggest, type Path } from './problem.ts'
import { kinds, type z } from './schema.ts'

export interface SchemaFinding {
  readonly path: Path
  readonly message: string
  /** The key is at fault, not its value. */
  readonly atKey: boolean
  /** For a missing key: other keys that could be given in its place. */
  readonly or?: readonly string[]
}

type Raw = z.core.$ZodRawIssue
type Issue = z.core.$ZodIssue

const expected: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a block of keys',
  record: 'a block of keys',
}

/** The error map to parse with. `hidden` returns true for values that came from the environment or a file. */
export function explain(hidden: (value: unknown) => boolean): z.core.$ZodErrorMap {
  return (raw: Raw) => {
    const found = isSecret(raw) || hidden(raw.input) ? undefined : show(raw.input)
    const got = found === undefined ? '' : `, got ${found}`
    switch (raw.code) {
      case 'invalid_type':
        return typeMessage(raw, got)
      case 'invalid_value':
        return valueMessage(raw.input, raw.values.map(String), found)
      case 'too_small':
        return sizeMessage(raw.origin, `at least ${raw.minimum}`, got)
      case 'too_big':
        return sizeMessage(raw.origin, `at most ${raw.maximum}`, got)
      case 'invalid_union':
        return `is not acceptable${got}`
      default:
        return undefined
    }
  }
}

/** One finding for each fault. For a union, the finding is that of the alternative that the value looks like. */
export function findings(issues: readonly Issue[], prefix: Path = []): readonly SchemaFinding[] {
  return issues.flatMap((issue): readonly SchemaFinding[] => {
    const path = [...prefix, ...issue.path.map((step) => (typeof step === 'symbol' ? '' : step))]
    if (issue.code === 'unrecognized_keys') {
      const message = 'unknown key'
      return issue.keys.map((key) => ({ path: [...path, key], message, atKey: true }))
    }
    if (issue.code === 'invalid_key') {
      return [{ path, message: issue.issues[0]?.message ?? issue.message, atKey: true }]
    }
    const branch = issue.code === 'invalid_union' && issue.errors.find(looksLike)
    if (branch) return findings(branch, path)
    return [{ path, message: issue.message, atKey: false }]
  })
}

function looksLike(branch: readonly Issue[]): boolean {
  const wrongKind = (issue: Issue) =>
    issue.path.length === 0 &&
    ['invalid_type', 'invalid_value', 'invalid_union'].includes(issue.code)
  return branch.length > 0 && !branch.some(wrongKind)
}

function typeMessage(raw: Raw & { readonly code: 'invalid_type' }, got: string): string {
  const want = expected[raw.expected] ?? raw.expected
  if (raw.input === undefined) return `is missing; write ${want}`
  const quote = raw.expected === 'string' && ['number', 'boolean'].includes(typeof raw.input)
  const unquote = ['number', 'int', 'boolean'].includes(raw.expected) && looksRight(raw.input)
  return `expected ${want}${got}${quote ? '; put it in quotes' : ''}${unquote ? '; remove the quotes' : ''}`
}

function looksRight(input: unknown): boolean {
  return typeof input === 'string' && /^(-?\d+(\.\d+)?|true|false)$/.test(input)
}

function valueMessage(
  input: unknown,
  values: readonly string[],
  found: string | undefined,
): string {
  const what = found === undefined ? 'is not allowed' : `${found} is not allowed`
  const near = typeof input === 'string' && found !== undefined && suggest(input, values)
  return near ? `${what}${didYouMean(input, values)}` : `${what}; write ${values.join(', ')}`
}

function sizeMessage(origin: string, bound: string, got: string): string {
  if (origin === 'string')
    return `is too ${bound.includes('least') ? 'short' : 'long'}; ${bound} characters`
  if (origin === 'array')
    return `has too ${bound.includes('least') ? 'few' : 'many'} items; ${bound}`
  return `is out of range; ${bound}${got}`
}

function isSecret(raw: Raw): boolean {
  const schema = raw.schema ?? raw.inst
  const kind =
    schema && '_zod' in schema && 'parse' in schema
      ? kinds.get(schema as z.ZodType)?.kind
      : undefined
  return kind === 'secret' || kind === 'url'
}

export function show(value: unknown): string | undefined {
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object' && value !== null) return 'a block of keys'
  if (value === undefined) return undefined
  const text = JSON.stringify(value)
  return text.length > 60 ? `${text.slice(0, 57)}…"` : text
}
