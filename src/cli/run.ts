// The command line: argv → command → exit code. Most commands call the admin API. Only `start`, `check` and `doctor`
// import the gateway, so that the other commands answer in a tenth of a second.

import { parseArgs } from 'node:util'
import { didYouMean, suggest } from '../config/problem.ts'
import { messageOf } from '../errors.ts'
import { accountCommands } from './accounts.ts'
import { createAdmin } from './admin.ts'
import { audit } from './audit.ts'
import { check } from './check.ts'
import { CliError, exit, optionsOf, usageError } from './command.ts'
import type { Call, Command, Io, Options } from './command.ts'
import { completionCommand } from './completion.ts'
import { doctor } from './doctor.ts'
import { helpOf, overview, version } from './help.ts'
import { keyCommands } from './keys.ts'
import { moneyCommands } from './money.ts'
import { portal } from './portal.ts'
import { reconcile } from './reconcile.ts'
import { reload } from './reload.ts'
import { cleanLines } from './table.ts'
import { top } from './top.ts'
import { transactions } from './transactions.ts'
import { usage } from './usage.ts'
import { findGateway } from './where.ts'

const start: Command = {
  name: 'start',
  summary: 'run the gateway; also without any command',
  isLocal: true,
  async run({ io, text }) {
    const { start } = await import('../start.ts')
    return start(text('config') ?? 'gateway.yaml', io)
  },
}

const commands: readonly Command[] = [
  start,
  check,
  doctor,
  ...accountCommands,
  ...keyCommands,
  ...moneyCommands,
  audit,
  transactions,
  portal,
  usage,
  reconcile,
  top,
  reload,
  completionCommand(() => commands),
]

/** `argv` is without node and the script. Never throws because of what a person writes. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  try {
    return await runOne(argv, io)
  } catch (error) {
    if (error instanceof CliError) {
      // It may have words of a file or of a gateway in it.
      io.stderr.write(`tollgate: ${cleanLines(error.message)}\n`)
      return error.exitCode
    }
    if (io.signal?.aborted) return exit.ok
    throw error
  }
}

async function runOne(argv: readonly string[], io: Io): Promise<number> {
  const [first = 'help', second] = argv
  if (['version', '--version', '-v'].includes(first)) return print(io, `${version()}\n`)
  if (['help', '--help', '-h'].includes(first)) {
    return print(io, second === undefined ? overview(commands) : helpFor(argv.slice(1)))
  }
  if (second === '--help' || second === '-h') return print(io, helpFor([first]))
  const command = find(argv)
  const args = argv.slice(command.name.split(' ').length)
  if (args.includes('--help') || args.includes('-h')) return print(io, helpOf(command))
  return command.run(readCall(command, args, io))
}

function print({ stdout }: Io, text: string): number {
  stdout.write(text)
  return exit.ok
}

function find([first = '', second = '']: readonly string[]): Command {
  const found = commands.find(({ name }) => name === first || name === `${first} ${second}`)
  if (found) return found
  const group = commands.filter(({ name }) => name.startsWith(`${first} `)).map(({ name }) => name)
  if (group.length > 0) {
    const meant = suggest(
      second,
      group.map((name) => name.slice(first.length + 1)),
    )
    const help = `Give one of: ${group.join(', ')}.`
    throw usageError(meant ? `Did you mean "${first} ${meant}"? ${help}` : help)
  }
  if (first.startsWith('-'))
    throw usageError('Options come after the command. See `tollgate help`.')
  const heads = new Set(commands.map(({ name }) => name.split(' ')[0] ?? ''))
  const meant = didYouMean(first, [...heads]) || '.'
  throw usageError(`There is no command ${JSON.stringify(first)}${meant} See \`tollgate help\`.`)
}

function helpFor(words: readonly string[]): string {
  const group = commands.filter(({ name }) => name.split(' ')[0] === words[0])
  const exact = group.find(({ name }) => name === words.join(' '))
  if (exact) return helpOf(exact)
  return group.length > 0 ? group.map(helpOf).join('\n') : helpOf(find(words))
}

function readCall(command: Command, args: readonly string[], io: Io): Call {
  const { values, positionals } = parse(command, args)
  const { words: most = [] } = command
  const least = most.filter((word) => !word.endsWith('?'))
  if (positionals.length < least.length) {
    throw usageError(`${least[positionals.length]} is missing.\n${helpOf(command)}`)
  }
  if (positionals.length > most.length) {
    // npm swallows an option that no `--` precedes, and passes on only its value, as a word.
    const hint = io.env.npm_lifecycle_event
      ? ' npm passes on only options behind `--`, as in `npm start -- --config FILE`.'
      : ''
    throw usageError(`${JSON.stringify(positionals[most.length])} is one word too many.${hint}`)
  }
  const texts = (name: string) =>
    [values[name] ?? []].flat().filter((value) => typeof value === 'string')
  const call: Call = {
    io,
    words: positionals,
    text: (name) => texts(name).at(-1),
    list: (name) => (values[name] === undefined ? undefined : texts(name)),
    has: (name) => values[name] !== undefined,
    isJson: values.json === true,
    async admin(file) {
      const progress = values.json === true ? undefined : io.stderr
      const idempotencyKey = call.text('idempotency-key')
      const place = await findGateway(call, file)
      return createAdmin({ ...place, idempotencyKey, progress, signal: io.signal })
    },
  }
  return call
}

type Values = Readonly<Record<string, string | boolean | readonly (string | boolean)[] | undefined>>

function parse(
  command: Command,
  args: readonly string[],
): { values: Values; positionals: string[] } {
  const known = optionsOf(command)
  const options = Object.fromEntries(
    Object.entries(known).map(([name, { value, isList = false }]) => [
      name,
      { type: value ? ('string' as const) : ('boolean' as const), multiple: isList },
    ]),
  )
  try {
    return parseArgs({
      args: withMinus(args, known),
      options,
      allowPositionals: true,
      strict: true,
    })
  } catch (error) {
    throw usageError(explain(error, Object.keys(options)))
  }
}

/** Rewrites what parseArgs would take for an option: an amount such as `-500`, as a word or after an option that takes a value. */
function withMinus(args: readonly string[], options: Options): string[] {
  const joined: string[] = []
  for (let i = 0; i < args.length; i++) {
    const [arg = '', next = ''] = args.slice(i, i + 2)
    const takesValue = arg.startsWith('--') && options[arg.slice(2)]?.value !== undefined
    if (takesValue && /^-[^-]/.test(next)) {
      joined.push(`${arg}=${next}`)
      i++
    } else joined.push(/^-\d/.test(arg) ? arg.replace('-', '\u2212') : arg)
  }
  return joined
}

function explain(error: unknown, names: readonly string[]): string {
  const message = messageOf(error)
  const unknown = /^Unknown option '--?([^']+)'/.exec(message)?.[1]
  if (unknown === undefined) return message.split('\n')[0] ?? message
  return `There is no option --${unknown}${didYouMean(unknown, names) || '.'}`
}
