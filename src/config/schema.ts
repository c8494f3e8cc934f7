// The building blocks of configuration schemas: zod, and in addition durations, sizes, decimals, secrets and paths.
// Each parses its text here; the rest of the gateway gets ms, bytes, micro-units or plain text.

import { z } from 'zod'

export { z }

/** The schema of a plugin without configuration. */
export const noKeys = z.strictObject({})

export type Schema = z.core.$ZodType

/** The meaning of a schema's value when its JSON type does not tell it. Loading, printing and the reference use it. */
export interface Kind {
  readonly kind:
    | 'duration'
    | 'size'
    | 'decimal'
    | 'secret'
    | 'url'
    | 'path'
    | 'certificate file'
    | 'private key file'
  /** Keys that this block will have in a later version: refused as "not supported yet" instead of "unknown". */
  readonly later?: readonly string[]
}

/** Kinds by schema. Derived schemas (`.describe()`, `.min()`) inherit them. */
export const kinds = z.registry<Partial<Kind>>()

const msPerHour = 3_600_000
const msOf: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: msPerHour }
const bytesOf: Readonly<Record<string, number>> = {
  B: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
}

const durationPattern = /^(0|[1-9]\d{0,14})(ms|s|m|h)$/
const sizePattern = /^(0|[1-9]\d{0,15})(B|KiB|MiB|GiB|TiB)$/

/** A longer time overflows setTimeout, which then fires at once. */
const longestTimerMs = 2 ** 31 - 1

const durationHelp = 'write a whole number with its unit, such as 500ms, 30s, 15m or 24h'
const bytesHelp = 'write a whole number with its unit, such as 512B, 64KiB, 100MiB or 10GiB'
const pathHelp = 'write a path'
const pemHelp = 'write the path of a PEM file'
const decimalHelp = 'write a decimal number ≥ 0 with at most 6 places, such as 0.07'

/** `500ms 30s 15m 24h` → milliseconds; at least `min`, by default 1 ms. */
export function duration({ min = 1, max = longestTimerMs } = {}) {
  return z
    .string({ error: durationHelp })
    .regex(durationPattern, { error: durationHelp })
    .transform((text, ctx) => {
      const ms = parseUnit(text, msOf)
      if (ms < min) return refuse(ctx, `is too short; at least ${min}ms`)
      if (ms > max) return refuse(ctx, `is too long; at most ${longest(max)}`)
      return ms
    })
    .register(kinds, { kind: 'duration' })
}

const longest = (ms: number): string =>
  ms < msPerHour ? `${ms}ms` : `${Math.floor(ms / msPerHour)}h`

/** `64KiB 100MiB` or a plain integer → bytes; at least `min`, by default 1. */
export function bytes({ min = 1, max = Number.MAX_SAFE_INTEGER } = {}) {
  return z
    .union([z.int({ error: bytesHelp }), z.string().regex(sizePattern, { error: bytesHelp })], {
      error: bytesHelp,
    })
    .transform((value, ctx) => {
      const size = typeof value === 'number' ? value : parseUnit(value, bytesOf)
      if (size < min) return refuse(ctx, `is too small; at least ${min} bytes`)
      if (size > max) return refuse(ctx, `is too large; at most ${max} bytes`)
      return size
    })
    .register(kinds, { kind: 'size' })
}

/**
 * Decimal text → integer micro-units. The loader passes a YAML number as its source text: the double nearest
 * to 0.07 is not 0.07, and a price must be exactly what the file says.
 */
export function decimal() {
  return z
    .union([z.string(), z.number()], { error: decimalHelp })
    .transform((value, ctx) => {
      const micros = parseMicros(String(value))
      if (micros === undefined) return refuse(ctx, decimalHelp)
      if (micros > 10n ** 15n) return refuse(ctx, 'is too large; at most 1000000000')
      return micros
    })
    .register(kinds, { kind: 'decimal' })
}

/** A text that `check --print`, messages and logs never show. It should come from `${NAME}` or `${file:PATH}`. */
export function secret() {
  return z.string().register(kinds, { kind: 'secret' })
}

/** A path; relative ones start at the configuration file's folder. */
export function path() {
  return z.string({ error: pathHelp }).min(1, { error: pathHelp }).register(kinds, { kind: 'path' })
}

/** A PEM file's path. The loader reads and checks it. */
export function pemFile(kind: 'certificate file' | 'private key file') {
  return z.string({ error: pemHelp }).min(1, { error: pemHelp }).register(kinds, { kind })
}

/** Refuses these keys as "not supported yet". */
export function withLater<S extends z.ZodType>(schema: S, later: readonly string[]): S {
  kinds.add(schema, { later })
  return schema
}

function parseMicros(text: string): bigint | undefined {
  const match = /^(\d*)(?:\.(\d*))?$/.exec(text)
  const whole = match?.[1] ?? ''
  const places = (match?.[2] ?? '').replace(/0+$/, '')
  if (!match || !/\d/.test(text) || whole.length > 20 || places.length > 6) return undefined
  return BigInt(whole || '0') * 1_000_000n + BigInt(places.padEnd(6, '0'))
}

function parseUnit(text: string, units: Readonly<Record<string, number>>): number {
  const digits = /^\d+/.exec(text)?.[0] ?? ''
  return Number(digits) * (units[text.slice(digits.length)] ?? NaN)
}

function refuse(ctx: z.core.$RefinementCtx, message: string): never {
  ctx.addIssue({ code: 'custom', message, input: ctx.value })
  return z.NEVER
}
