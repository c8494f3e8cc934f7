// The commands as the script of a shell has to know them.

/** A command as a shell has to know it. */
export interface Completed {
  /** `accounts`, or `accounts create` in two words. */
  readonly words: readonly [string] | readonly [string, string]
  readonly summary: string
  readonly takesFiles: boolean
  readonly options: readonly CompletedOption[]
}

export interface CompletedOption {
  readonly name: string
  readonly help: string
  readonly takes: 'nothing' | 'text' | 'file'
}

/** The first words of commands, each with the commands that begin with it. */
export function headsOf(commands: readonly Completed[]): ReadonlyMap<string, readonly Completed[]> {
  return Map.groupBy(commands, ({ words }) => words[0])
}

/** The help text of a first word: the summary of its only command, else the second words that may follow it. */
export function summaryOf([first, ...rest]: readonly Completed[]): string {
  if (!first || rest.length === 0) return first?.summary ?? ''
  return [first, ...rest].map(({ words }) => words[1] ?? '').join(', ')
}
