// tollgate check: every problem of a configuration file, or with --print what the gateway would run with.

import { exit, json, tell, usageError } from './command.ts'
import type { Command } from './command.ts'

const check: Command = {
  name: 'check',
  words: ['FILE?'],
  summary: 'every problem of the configuration; exit code 78 if there is one',
  options: { print: { help: 'the effective configuration, secrets masked' }, json },
  isLocal: true,
  async run(call) {
    const { io, words, text, has } = call
    if (words[0] !== undefined && text('config') !== undefined) {
      throw usageError('Give the file once.')
    }
    const file = words[0] ?? text('config') ?? 'gateway.yaml'
    const [{ loadConfig }, { importPlugin }, { printYaml }, { formatProblem }, plugins] =
      await Promise.all([
        import('../config/load.ts'),
        import('../config/own-plugin.ts'),
        import('../config/tree.ts'),
        import('../config/problem.ts'),
        io.plugins?.() ?? [],
      ])
    const loaded = await loadConfig(file, plugins, { env: io.env, loadPlugin: importPlugin })
    const problems = 'problems' in loaded ? loaded.problems : []
    if ('effective' in loaded && has('print')) {
      return tell(call, loaded.effective, printYaml(loaded.effective))
    }
    const lines = problems.map((problem) => `${formatProblem(problem)}\n`)
    const count = `${problems.length} problem${problems.length === 1 ? '' : 's'}\n`
    tell(call, { file, problems }, lines.join('') + count)
    return problems.length === 0 ? exit.ok : exit.configuration
  },
}

export const checkCommands: readonly Command[] = [check]
