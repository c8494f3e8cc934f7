// Completion for zsh, with the help texts: as a file of $fpath, or sourced.

import { headsOf, summaryOf } from './completed.ts'
import type { Completed } from './completed.ts'

export function zshScript(commands: readonly Completed[]): string {
  const heads = headsOf(commands)
  const groups = [...heads].filter(([, group]) => group.length > 1)
  const firsts = [...heads].map(([head, group]) => described(head, summaryOf(group)))
  return `#compdef tollgate
# zsh completion of tollgate: source <(tollgate completion zsh)
_tollgate() {
  local command=\${words[2]} last=\${words[CURRENT - 1]} has_files=
  local -a found texts files
  if ((CURRENT == 2)) || [[ $command == help ]]; then
    found=(${firsts.join(' ')})
    _describe command found
    return
  fi
  case $command in
${groups.map(([head, group]) => groupCase(head, group)).join('\n')}
  esac
  case $command in
${commands.map(commandCase).join('\n')}
  esac
  if ((\${files[(Ie)$last]})); then
    _files
  elif ((\${texts[(Ie)$last]})); then
    return
  elif [[ $has_files == yes && \${words[CURRENT]} != -* ]]; then
    _files
  else
    _describe -o option found
  fi
}
if [[ \${funcstack[1]} == _tollgate ]]; then _tollgate "$@"; else compdef _tollgate tollgate; fi
`
}

function groupCase(head: string, group: readonly Completed[]): string {
  const seconds = group.map(({ words, summary }) => described(words[1] ?? '', summary))
  return `  ${head})
    if ((CURRENT == 3)); then
      found=(${seconds.join(' ')})
      _describe command found
      return
    fi
    command+=" \${words[3]}"
    ;;`
}

function commandCase({ words, options, takesFiles }: Completed): string {
  const named = (takes: string) =>
    options.filter((option) => option.takes === takes).map(({ name }) => `--${name}`)
  const found = options.map(({ name, help }) => described(`--${name}`, help))
  const files = takesFiles ? ' has_files=yes' : ''
  return `  '${words.join(' ')}')
    found=(${found.join(' ')})
    texts=(${named('text').join(' ')}) files=(${named('file').join(' ')})${files}
    ;;`
}

/** One entry for _describe, which takes the first colon as the end of the word: colons in the help are escaped. */
function described(word: string, help: string): string {
  return `'${`${word}:${help.replaceAll(':', String.raw`\:`)}`.replaceAll("'", String.raw`'\''`)}'`
}
