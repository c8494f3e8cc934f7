// One JSON line for each exchange, and the gateway's own notices. Never bodies, keys or file names: callers pass named
// fields, and errors are reduced to name, message, code, stack and the errors in them before they are written.

import type { Config } from './config/config.ts'
import { openLogOutput } from './log-output.ts'

export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /** From now on this text is masked, too. */
  hide(secret: string): void
  /** Returns the text with all secrets masked: for texts that go elsewhere than into the log. */
  masked(text: string): string
  /** Changes what is written and masked; texts that are not among `secrets` are no longer masked. */
  adjust(options: Pick<LogOptions, 'level' | 'secrets'> & Partial<Pick<LogOptions, 'format'>>): void
  /** Writes whole lines of another process' log, as they are. */
  forward(lines: string): void
  /** The number of lines that were dropped because their reader did not take them. */
  readonly dropped: number
  /** Bytes that their reader has not taken yet. */
  readonly waiting: number
  /** Writes the buffered lines, if that can be done soon. */
  close(): Promise<void>
}

export interface LogOptions {
  readonly level: Config['log']['level']
  readonly format: NonNullable<Config['log']['format']>
  /** Stands in each line, where several processes write into one log. */
  readonly worker?: number | undefined
  /** Texts that must not be written, such as target keys; every occurrence becomes `***`. */
  readonly secrets?: readonly string[]
  readonly write?: (line: string) => void
}

/** The least important first. */
const levels = ['debug', 'info', 'warn', 'error', 'silent'] as const
type Level = (typeof levels)[number]

/** Shorter secrets are not masked: a target's header may have the value `chat` or `true`, which every line contains. */
const leastSecret = 8

export function createLog({ secrets = [], ...options }: LogOptions): Log {
  const output = options.write ? undefined : openLogOutput()
  const sink = options.write ?? ((line: string) => output?.write(line))
  let hidden = hiding(secrets)
  let { format } = options
  let least = levels.indexOf(options.level)
  const write = (at: Level, fields: object, message: string) => {
    if (levels.indexOf(at) < least) return
    const { worker } = options
    const told = worker === undefined ? fields : { ...fields, worker }
    const line = mask(lineOf(at, told, message), hidden.values())
    sink(format === 'pretty' ? pretty(line) : line)
  }
  return {
    debug: (fields, message) => write('debug', fields, message),
    info: (fields, message) => write('info', fields, message),
    warn: (fields, message) => write('warn', fields, message),
    error: (fields, message) => write('error', fields, message),
    hide(secret) {
      if (!hidden.has(secret)) hidden = hiding([...hidden.keys(), secret])
    },
    masked: (text) => mask(text, hidden.keys()),
    forward: (lines) => sink(lines),
    adjust(next) {
      least = levels.indexOf(next.level)
      format = next.format ?? format
      hidden = hiding(next.secrets ?? [])
    },
    get dropped() {
      return output?.dropped ?? 0
    },
    get waiting() {
      return output?.waiting ?? 0
    },
    close: async () => output?.close(),
  }
}

/** The text with the secrets masked, but for very short ones. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return mask(text, hiding(secrets).keys())
}

/**
 * The texts to mask, each also as it is escaped in a line, because a line is JSON. The longest first: if one text is
 * the beginning of another, masking the shorter one first would leave the rest of the longer one.
 */
function hiding(secrets: readonly string[]): ReadonlyMap<string, string> {
  const long = new Set(secrets.filter(({ length }) => length >= leastSecret))
  const sorted = [...long].toSorted((a, b) => b.length - a.length)
  return new Map(sorted.map((one) => [one, JSON.stringify(one).slice(1, -1)]))
}

/** To look first takes a fifth of the time: most lines have no secret. */
function mask(text: string, secrets: Iterable<string>): string {
  let masked = text
  for (const secret of secrets) {
    if (masked.includes(secret)) masked = masked.replaceAll(secret, '***')
  }
  return masked
}

/** Built by one JSON.stringify: a logger that joins a hundred pieces makes a fifth of the garbage of a request. */
function lineOf(level: Level, fields: object, message: string): string {
  const err = 'err' in fields ? fields.err : undefined
  const told = err === undefined ? fields : { ...fields, err: describe(err) }
  const inner = JSON.stringify(told).slice(1, -1)
  const msg = JSON.stringify(message)
  return `{"level":"${level}","time":${Date.now()},${inner}${inner === '' ? '' : ','}"msg":${msg}}\n`
}

interface Described {
  readonly name: string
  readonly message: string
  readonly code?: unknown
  readonly stack?: string
  readonly cause?: Described
  /** What several parts failed with, one after the other: the last failure, and those before it. */
  readonly error?: Described
  readonly suppressed?: Described
}

function describe(error: unknown): Described {
  if (!(error instanceof Error)) return { name: 'thrown', message: String(error) }
  const { name, message, stack, cause } = error
  const code = 'code' in error ? error.code : undefined
  const both = error instanceof SuppressedError && {
    error: describe(error.error),
    suppressed: describe(error.suppressed),
  }
  return { name, message, code, stack, ...(cause ? { cause: describe(cause) } : {}), ...both }
}

function pretty(line: string): string {
  const { level, time, msg, ...rest } = JSON.parse(line) as Record<string, unknown>
  const clock = new Date(Number(time)).toISOString().slice(11, 19)
  const fields = Object.entries(rest)
    .map(([name, value]) => `${name}=${isPrintable(value) ? value : escaped(value)}`)
    .join(' ')
  return `${clock} ${String(level)} ${String(msg)} ${fields}\n`
}

/** Some texts are a backend's. With control characters they could clear the terminal, or look like lines of the log. */
function isPrintable(value: unknown): value is string {
  return typeof value === 'string' && !/\p{Cc}/u.test(value)
}

function escaped(value: unknown): string {
  const toCode = (char: string) => `\\u00${char.charCodeAt(0).toString(16)}`
  return JSON.stringify(value).replace(/[\u007f-\u009f]/g, toCode)
}
