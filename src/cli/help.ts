// The help texts, made from the table of commands.

import { readFileSync } from 'node:fs'
import { optionsOf } from './command.ts'
import type { Command } from './command.ts'

export function overview(commands: readonly Command[]): string {
  const rows: (readonly [string, string])[] = [
    ...commands.map((command) => [usage(command), command.summary] as const),
    ['help [COMMAND]', 'this text, or the options of a command'],
    ['version', 'the version'],
  ]
  return `Usage: tollgate COMMAND [OPTIONS]\n\n${columns(rows)}\nACCOUNT is an account's id or its name. "tollgate COMMAND --help" lists options.
Exit codes: 0 done, 1 failed, 2 wrong use, 69 gateway or server not reached, 77 token refused, 78 configuration.\n`
}

export function helpOf(command: Command): string {
  const rows = Object.entries(optionsOf(command)).map(
    ([name, { value, help }]) => [value ? `--${name} ${value}` : `--${name}`, help] as const,
  )
  const [first = '', ...rest] = command.summary
  const sentence = `${first.toUpperCase()}${rest.join('')}.`
  return `Usage: tollgate ${usage(command)} [OPTIONS]\n\n${sentence}\n\n${columns(rows)}`
}

function usage({ name, words = [] }: Command): string {
  const shown = words.map((word) => (word.endsWith('?') ? `[${word.slice(0, -1)}]` : word))
  return [name, ...shown].join(' ')
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const longest = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(longest)}  ${right}\n`).join('')
}

export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
