// tollgate completion: prints a script with which a shell completes commands and options, made from the same table as the help.

import { optionsOf, usageError, wordAt } from './command.ts'
import type { Command } from './command.ts'
import { bashScript } from './completion/bash.ts'
import type { Completed } from './completion/completed.ts'
import { fishScript } from './completion/fish.ts'
import { zshScript } from './completion/zsh.ts'

const scripts: Readonly<Record<string, (commands: readonly Completed[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

/** `all` is asked for when the command runs, because this command is one of them. */
export function completionCommand(all: () => readonly Command[]): Command {
  return {
    name: 'completion',
    words: ['SHELL'],
    summary: 'a script that completes commands and options, for bash, zsh or fish',
    isLocal: true,
    async run(call) {
      const shell = wordAt(call, 0)
      const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined
      if (!script) throw usageError(`SHELL is one of ${Object.keys(scripts).join(', ')}.`)
      call.io.stdout.write(script([...all().map(completed), ...others]))
      return 0
    },
  }
}

function completed(command: Command): Completed {
  const { name, summary, words = [] } = command
  const [first = '', second] = name.split(' ')
  return {
    words: second === undefined ? [first] : [first, second],
    summary,
    takesFiles: words.some((word) => /^(FILE|OTHER)\b/.test(word)),
    options: Object.entries(optionsOf(command)).map(([name, { value, help }]) => ({
      name,
      help,
      takes: value === undefined ? 'nothing' : value === 'FILE' ? 'file' : 'text',
    })),
  }
}

/** Words that run.ts answers itself: no `Command` has them. */
const others: readonly Completed[] = [
  { words: ['help'], summary: 'the commands', takesFiles: false, options: [] },
  { words: ['version'], summary: 'the version', takesFiles: false, options: [] },
]
