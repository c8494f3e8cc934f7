// Completion for bash, also for the old one on macOS. With `-o default`, bash completes names of files when COMPREPLY
// is empty.

import { headsOf } from './completed.ts'
import type { Completed } from './completed.ts'

export function bashScript(commands: readonly Completed[]): string {
  const heads = headsOf(commands)
  const groups = [...heads].filter(([, group]) => group.length > 1)
  return `# bash completion of tollgate: source <(tollgate completion bash)
_tollgate() {
  local word=\${COMP_WORDS[COMP_CWORD]} last=\${COMP_WORDS[COMP_CWORD - 1]}
  local command=\${COMP_WORDS[1]} options= texts= files= has_files=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '${[...heads.keys()].join(' ')}' -- "$word"))
    return
  fi
  case $command in
${groups.map(([head, group]) => groupCase(head, group)).join('\n')}
  help)
    COMPREPLY=($(compgen -W '${[...heads.keys()].join(' ')}' -- "$word"))
    return
    ;;
  esac
  case $command in
${commands.map(commandCase).join('\n')}
  esac
  [[ $word != -* ]] || COMPREPLY=($(compgen -W "$options" -- "$word"))
  if [[ " $files " != *" $last "* && ($word == -* || -z $has_files || " $texts " == *" $last "*) ]]; then
    compopt +o default 2>/dev/null
  fi
}
complete -o default -F _tollgate tollgate
`
}

function groupCase(head: string, group: readonly Completed[]): string {
  const seconds = group.map(({ words }) => words[1] ?? '').join(' ')
  return `  ${head})
    if ((COMP_CWORD == 2)); then
      COMPREPLY=($(compgen -W '${seconds}' -- "$word"))
      return
    fi
    command+=" \${COMP_WORDS[2]}"
    ;;`
}

function commandCase({ words, options, takesFiles }: Completed): string {
  const named = (takes?: string) =>
    options
      .filter((option) => takes === undefined || option.takes === takes)
      .map(({ name }) => `--${name}`)
      .join(' ')
  const files = takesFiles ? ' has_files=yes' : ''
  return `  '${words.join(' ')}')
    options='${named()}' texts='${named('text')}' files='${named('file')}'${files}
    ;;`
}
