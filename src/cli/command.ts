// What a command is: declared once, with its words, options and help; called with what was given. The exit codes.

import type { PluginKeys } from '../config/keys.ts'

export const exit = {
  ok: 0,
  failed: 1,
  usage: 2,
  unreachable: 69,
  refused: 77,
  configuration: 78,
} as const

/** Ends the command: message to stderr, code to the shell. */
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
}

/** The process as a command sees it. */
export interface Io {
  readonly stdout: Out
  readonly stderr: Out
  /** Read to its end by the commands that ask for something secret. */
  readonly stdin?: AsyncIterable<unknown>
  readonly env: Readonly<Record<string, string | undefined>>
  /** For stdout; leaves the text as it is where that shows no colours, or nobody wants them. */
  readonly style?: (colour: Colour, text: string) => string
  /** Ends what would go on for ever. */
  readonly signal?: AbortSignal
  /** The built-in plugins, for judging their blocks in gateway.yaml. Imported when asked for: they bring the gateway along. */
  readonly plugins?: () => Promise<readonly PluginKeys[]>
}

export interface Option {
  /** What its value is called in the help; a switch has none. */
  readonly value?: string
  readonly help: string
  /** May be given several times. */
  readonly isList?: boolean
}

/** The admin API as commands speak it. */
export interface Admin {
  /** Segments of a path are encoded: ``admin.get(path`accounts/${name}`)``. */
  get<T>(path: string, options?: { readonly timeoutMs?: number }): Promise<T>
  post<T>(path: string, body: object): Promise<T>
  patch<T>(path: string, body: object): Promise<T>
  delete<T>(path: string): Promise<T>
}

export interface Call {
  readonly io: Io
  /** As many as the command declares, optional ones perhaps fewer. */
  readonly words: readonly string[]
  /** An option's value. */
  text(name: string): string | undefined
  list(name: string): readonly string[] | undefined
  has(name: string): boolean
  readonly isJson: boolean
  /** The admin API of the gateway that was chosen. */
  admin(): Promise<Admin>
}

export interface Command {
  /** `accounts create`. */
  readonly name: string
  /** In order; a trailing `?` makes one optional. */
  readonly words: readonly string[]
  readonly summary: string
  readonly options: Readonly<Record<string, Option>>
  /** Does not speak to a gateway. */
  readonly isLocal?: boolean
  /** Answers the exit code. */
  run(call: Call): Promise<number>
}

/** Of commands that make something. */
export const repeatable: Command['options'] = {
  'idempotency-key': { value: 'KEY', help: 'repeated with the same one, it is done once' },
}

export const json: Option = { help: 'JSON, for programs' }

const gatewayOptions: Command['options'] = {
  admin: { value: 'URL', help: 'the admin listener; else as gateway.yaml says' },
  token: { value: 'TOKEN', help: 'the admin token; others see it in `ps`: rather one of these' },
  'token-file': {
    value: 'FILE',
    help: 'a file that has it; else $TOLLGATE_ADMIN_TOKEN, else gateway.yaml',
  },
  json,
}

const commonOptions: Command['options'] = {
  config: { value: 'FILE', help: 'the configuration; gateway.yaml where not given' },
  help: { help: 'this text' },
}

export function optionsOf({ options, isLocal }: Command): Command['options'] {
  return { ...options, ...(isLocal ? {} : gatewayOptions), ...commonOptions }
}

export function paint({ io }: Call, colour: Colour, text: string): string {
  return io.style?.(colour, text) ?? text
}

export function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`
}

/** What a command has to say on stdout, where it went well: JSON for programs, else the text. */
export function tell({ io, isJson }: Call, value: unknown, text: string): number {
  io.stdout.write(isJson ? `${JSON.stringify(value)}\n` : text)
  return exit.ok
}

/** The word that the command declares at this place. Only for those that are not optional. */
export function wordAt({ words }: Call, index: number): string {
  const word = words[index]
  if (word === undefined) throw usageError('A word is missing.')
  return word
}
