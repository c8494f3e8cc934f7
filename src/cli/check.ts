// tollgate check: prints every problem of a configuration file; with --print, the configuration that the gateway would
// run with; with --diff, what would change.

import { readFile, realpath } from 'node:fs/promises'
import { changesBetween, formatChange } from '../config/diff.ts'
import type { Shown } from '../config/diff.ts'
import type { Loaded } from '../config/load.ts'
import { formatPath, formatProblem } from '../config/problem.ts'
import type { Problem } from '../config/problem.ts'
import { CliError, exit, paint, plural, tell, usageError } from './command.ts'
import type { Call, Command } from './command.ts'
import { cleanLines } from './table.ts'

export const check: Command = {
  name: 'check',
  words: ['FILE?', 'OTHER?'],
  summary: 'show every problem of the configuration; exit code 78 if there is one',
  options: {
    print: { help: 'print the effective configuration, with secrets masked' },
    diff: {
      help: 'print what would change in the running gateway, or from the file OTHER, and what needs a restart',
    },
  },
  async run(call) {
    const { file, loaded } = await loadFile(call)
    if (call.words[1] !== undefined && !call.has('diff')) throw usageError('OTHER needs --diff.')
    if ('problems' in loaded) return tellProblems(call, file, loaded)
    if (call.has('diff')) return await tellDiff(call, file, loaded)
    if (!call.has('print')) return tellProblems(call, file, loaded)
    const { printYaml } = await import('../config/tree.ts')
    return tell(call, loaded.effective, printYaml(loaded.effective))
  },
}

/** Loads the file that the command names, as its word or with --config; else gateway.yaml. */
export async function loadFile({
  io,
  words,
  text,
}: Call): Promise<{ file: string; loaded: Loaded }> {
  if (words[0] !== undefined && text('config') !== undefined) {
    throw usageError('Give the file once.')
  }
  const file = words[0] ?? text('config') ?? 'gateway.yaml'
  const loaded = await load({ io }, file)
  if ('problems' in loaded || !(await isMountedAlone(file))) return { file, loaded }
  const warning = { file, line: 1, column: 1, path: [], message: mountedAlone }
  return { file, loaded: { ...loaded, warnings: [warning, ...loaded.warnings] } }
}

const mountedAlone =
  'this file is mounted without its folder: when another file takes its place, which most editors and git do, this one goes on being read; mount the folder'

/**
 * Whether a file is a mount point of its own, as in a container that is given gateway.yaml and not its folder. False where the
 * system does not tell: `table` is Linux's.
 */
export async function isMountedAlone(
  file: string,
  table = '/proc/self/mountinfo',
): Promise<boolean> {
  try {
    const [path, mounts] = await Promise.all([realpath(file), readFile(table, 'utf8')])
    return mounts.split('\n').some((line) => mountPointOf(line) === path)
  } catch {
    return false
  }
}

/** The fifth word of a line; a blank in a path is written as `\040`. */
function mountPointOf(line: string): string | undefined {
  return line
    .split(' ')[4]
    ?.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    )
}

async function load({ io }: Pick<Call, 'io'>, file: string): Promise<Loaded> {
  const [{ loadConfig }, { importPlugin }, plugins] = await Promise.all([
    import('../config/load.ts'),
    import('../config/own-plugin.ts'),
    io.plugins?.() ?? [],
  ])
  return await loadConfig(file, plugins, { env: io.env, loadPlugin: importPlugin })
}

/** A change as the admin API tells it. */
export interface ShownChange {
  readonly path: string
  readonly from?: unknown
  readonly to?: unknown
  readonly needs_restart: boolean
}

async function tellDiff(call: Call, file: string, to: Shown): Promise<number> {
  const from = await otherOf(call, file)
  const changes = changesBetween(from, to).map(({ path, needsRestart, ...values }) => ({
    path: formatPath(path),
    ...values,
    needs_restart: needsRestart,
  }))
  return tell(call, { file, changes }, changeLines(changes))
}

/** The second file, or what the gateway runs with. */
async function otherOf(call: Call, file: string): Promise<Shown> {
  const [, other] = call.words
  if (other === undefined) {
    const admin = await call.admin(file)
    const { config, marks } = await admin.get<{ config: unknown; marks: Shown['marks'] }>('config')
    return { effective: config, marks }
  }
  const loaded = await load(call, other)
  if (!('problems' in loaded)) return loaded
  throw new CliError(exit.configuration, `${other} has problems itself: check it first.`)
}

/** A line for each change, and their count. */
export function changeLines(changes: readonly ShownChange[]): string {
  const lines = changes.map((change) => {
    const mark = change.needs_restart ? ' (needs a restart)' : ''
    return `${formatChange(change)}${mark}\n`
  })
  const later = changes.filter((change) => change.needs_restart).length
  const some = later > 0 ? `, ${later} of them after a restart` : ''
  return `${lines.join('')}${plural(changes.length, 'change')}${some}\n`
}

interface CheckResult {
  readonly problems?: readonly Problem[]
  readonly warnings?: readonly Problem[]
}

/** Prints each problem and warning in a line, and their counts; returns the exit code. */
export function tellProblems(
  call: Call,
  file: string,
  { problems = [], warnings = [] }: CheckResult,
): number {
  const isGood = problems.length === 0
  const lines = [
    ...problems.map((problem) => paint(call, 'red', cleanLines(formatProblem(problem)))),
    ...warnings.map((warning) =>
      paint(call, 'yellow', `warning: ${cleanLines(formatProblem(warning))}`),
    ),
    paint(call, isGood ? 'green' : 'red', plural(problems.length, 'problem')) +
      (warnings.length > 0 ? `, ${plural(warnings.length, 'warning')}` : ''),
  ]
  tell(call, { file, problems, warnings }, `${lines.join('\n')}\n`)
  return isGood ? exit.ok : exit.configuration
}
