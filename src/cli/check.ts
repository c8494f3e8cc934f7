// tollgate check: prints every problem of a configuration file, or with --print the configuration that the gateway
// would run with.

import type { Loaded } from '../config/load.ts'
import type { Problem } from '../config/problem.ts'
import { exit, json, paint, plural, tell, usageError } from './command.ts'
import type { Call, Command } from './command.ts'

export const check: Command = {
  name: 'check',
  words: ['FILE?'],
  summary: 'show every problem of the configuration; exit code 78 if there is one',
  options: { print: { help: 'print the effective configuration, with secrets masked' }, json },
  isLocal: true,
  async run(call) {
    const { file, loaded } = await loadFile(call)
    if ('problems' in loaded || !call.has('print')) return tellProblems(call, file, loaded)
    const { printYaml } = await import('../config/tree.ts')
    return tell(call, loaded.effective, printYaml(loaded.effective))
  },
}

/** Loads the file that the command names, as its word or with --config. */
export async function loadFile({
  io,
  words,
  text,
}: Call): Promise<{ file: string; loaded: Loaded }> {
  if (words[0] !== undefined && text('config') !== undefined) {
    throw usageError('Give the file once.')
  }
  const file = words[0] ?? text('config') ?? 'gateway.yaml'
  const [{ loadConfig }, { importPlugin }, plugins] = await Promise.all([
    import('../config/load.ts'),
    import('../config/own-plugin.ts'),
    io.plugins?.() ?? [],
  ])
  return {
    file,
    loaded: await loadConfig(file, plugins, { env: io.env, loadPlugin: importPlugin }),
  }
}

interface CheckResult {
  readonly problems?: readonly Problem[]
  readonly warnings?: readonly Problem[]
}

/** Prints each problem and warning in a line, and their counts; returns the exit code. */
export async function tellProblems(
  call: Call,
  file: string,
  { problems = [], warnings = [] }: CheckResult,
): Promise<number> {
  const { formatProblem } = await import('../config/problem.ts')
  const isGood = problems.length === 0
  const lines = [
    ...problems.map((problem) => paint(call, 'red', formatProblem(problem))),
    ...warnings.map((warning) => paint(call, 'yellow', `warning: ${formatProblem(warning)}`)),
    paint(call, isGood ? 'green' : 'red', plural(problems.length, 'problem')) +
      (warnings.length > 0 ? `, ${plural(warnings.length, 'warning')}` : ''),
  ]
  tell(call, { file, problems, warnings }, `${lines.join('\n')}\n`)
  return isGood ? exit.ok : exit.configuration
}
