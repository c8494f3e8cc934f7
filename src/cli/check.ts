// tollgate check: every problem of a configuration file, or with --print what the gateway would run with.

import { exit, usageError } from './command.ts'
import type { Command } from './command.ts'

const check: Command = {
  name: 'check',
  words: ['FILE?'],
  summary: 'every problem of the configuration; exit code 78 if there is one',
  options: { print: { help: 'the effective configuration, secrets masked' } },
  isLocal: true,
  async run({ io, words, text, has, isJson }) {
    if (words[0] !== undefined && text('config') !== undefined) {
      throw usageError('Give the file once.')
    }
    const file = words[0] ?? text('config') ?? 'gateway.yaml'
    const [{ loadConfig }, { importPlugin }, { printConfig }, { formatProblem }, plugins] =
      await Promise.all([
        import('../config/load.ts'),
        import('../config/own-plugin.ts'),
        import('../config/print.ts'),
        import('../config/problem.ts'),
        io.plugins?.() ?? [],
      ])
    const loaded = await loadConfig(file, plugins, { env: io.env, loadPlugin: importPlugin })
    const problems = 'problems' in loaded ? loaded.problems : []
    if ('effective' in loaded && has('print')) {
      io.stdout.write(
        isJson ? `${JSON.stringify(loaded.effective)}\n` : printConfig(loaded.effective),
      )
      return exit.ok
    }
    if (isJson) io.stdout.write(`${JSON.stringify({ file, problems })}\n`)
    else {
      for (const problem of problems) io.stdout.write(`${formatProblem(problem)}\n`)
      io.stdout.write(`${problems.length} problem${problems.length === 1 ? '' : 's'}\n`)
    }
    return problems.length === 0 ? exit.ok : exit.configuration
  },
}

export const checkCommands: readonly Command[] = [check]
