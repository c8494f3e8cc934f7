// The types of a command: a Command is declared once, with its words, options and help; a Call is what the user gave.
// And the exit codes.

import type { PluginKeys } from '../config/keys.ts'

export const exit = {
  ok: 0,
  failed: 1,
  usage: 2,
  unreachable: 69,
  refused: 77,
  configuration: 78,
} as const

/** Ends the command: the message goes to stderr, the exit code to the shell. */
export class CliError extends Error {
  override readonly name = 'CliError'
  readonly exitCode: number

  constructor(exitCode: number, message: string) {
    super(message)
    this.exitCode = exitCode
  }
}

export function usageError(message: string): CliError {
  return new CliError(exit.usage, message)
}

export type Colour = 'green' | 'yellow' | 'red'

export interface Out {
  write(text: string): unknown
  /** A terminal, on which a line can be overwritten. */
  readonly isTTY?: boolean
  /** Of a stream: `drain` comes when `write` has returned false and all was taken. */
  once?(event: 'drain', listener: () => void): unknown
}

/** The process as a command sees it. */
export interface Io {
  readonly stdout: Out
  readonly stderr: Out
  /** Commands that ask for a secret read it to its end. */
  readonly stdin?: AsyncIterable<unknown>
  readonly env: Readonly<Record<string, string | undefined>>
  /** Colours a text for stdout; returns it unchanged when stdout shows no colours, or the user wants none. */
  readonly style?: (colour: Colour, text: string) => string
  /** Fires when the user interrupts the command. */
  readonly signal?: AbortSignal
  /** The built-in plugins, to check their blocks in gateway.yaml. Imported only when called, because they import the whole gateway. */
  readonly plugins?: () => Promise<readonly PluginKeys[]>
}

export interface Option {
  /** The name of its value in the help; an option without a value is a switch. */
  readonly value?: string
  readonly help: string
  /** May be given several times. */
  readonly isList?: boolean
}

/** The commands' client of the admin API. */
export interface Admin {
  /** Segments of `path` must be encoded: ``admin.get(path`accounts/${name}`)``. */
  get<T>(path: string, options?: { readonly timeoutMs?: number }): Promise<T>
  post<T>(path: string, body: object): Promise<T>
  patch<T>(path: string, body: object): Promise<T>
  delete<T>(path: string, options?: { readonly timeoutMs?: number }): Promise<T>
  /** Writes the answer as it comes, no faster than `out` takes it. Breaks off when nothing comes for `timeoutMs`. */
  download(path: string, out: Out, options?: { readonly timeoutMs?: number }): Promise<void>
}

export interface Call {
  readonly io: Io
  /** As many words as the command declares; optional ones may be missing. */
  readonly words: readonly string[]
  /** The option's value; if it was given several times, the last one. */
  text(name: string): string | undefined
  list(name: string): readonly string[] | undefined
  has(name: string): boolean
  readonly isJson: boolean
  /** The admin API of the gateway that was chosen; `file` is the configuration that says where, by default that of --config. */
  admin(file?: string): Promise<Admin>
}

export type Options = Readonly<Record<string, Option>>

export interface Command {
  /** `accounts create`. */
  readonly name: string
  /** In order; a trailing `?` makes one optional. */
  readonly words?: readonly string[]
  readonly summary: string
  readonly options?: Options
  /** The command calls no gateway. */
  readonly isLocal?: boolean
  /** Resolves with the exit code. */
  run(call: Call): Promise<number>
}

/** The option of commands that create something. */
export const repeatable: Options = {
  'idempotency-key': {
    value: 'KEY',
    help: 'a command that is repeated with the same key is done once',
  },
}

export const json: Option = { help: 'JSON, for programs' }

const gatewayOptions: Options = {
  admin: { value: 'URL', help: 'the admin listener; if not given, the one in gateway.yaml' },
  token: {
    value: 'TOKEN',
    help: 'the admin token; other users can see it in `ps`, so rather use the next option',
  },
  'token-file': {
    value: 'FILE',
    help: 'a file with the admin token; if not given, $TOLLGATE_ADMIN_TOKEN, then gateway.yaml',
  },
  json,
}

const commonOptions: Options = {
  config: { value: 'FILE', help: 'the configuration; if not given, gateway.yaml' },
  help: { help: 'this text' },
}

export function optionsOf({ options, isLocal }: Command): Options {
  return { ...options, ...(isLocal ? {} : gatewayOptions), ...commonOptions }
}

export function paint({ io }: Call, colour: Colour, text: string): string {
  return io.style?.(colour, text) ?? text
}

export function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`
}

/** Prints the result of a command that succeeded to stdout: JSON for programs, else the text. */
export function tell({ io, isJson }: Call, value: unknown, text: string): number {
  io.stdout.write(isJson ? `${JSON.stringify(value)}\n` : text)
  return exit.ok
}

/** Resolves when `out` takes more. */
export async function writeTo(out: Out, text: string): Promise<void> {
  if (out.write(text) !== false || !out.once) return
  await new Promise<void>((resolve) => void out.once?.('drain', resolve))
}

/** The word that the command declares at this index. Only for words that are not optional. */
export function wordAt({ words }: Call, index: number): string {
  const word = words[index]
  if (word === undefined) throw usageError('A word is missing.')
  return word
}
