// Completion for fish, with the help texts: a line for each word and option.

import { headsOf, summaryOf } from './completed.ts'
import type { Completed } from './completed.ts'

export function fishScript(commands: readonly Completed[]): string {
  const heads = [...headsOf(commands)]
  const lines = [
    'complete -c tollgate -f',
    ...heads.map(([head, group]) => word('__fish_use_subcommand', head, summaryOf(group))),
    ...heads
      .filter(([, group]) => group.length > 1)
      .flatMap(([head, group]) => seconds(head, group)),
    word(seen('help'), heads.map(([head]) => head).join(' '), 'a command'),
    ...commands.flatMap(optionLines),
  ]
  return `# fish completion of tollgate: tollgate completion fish | source\n${lines.join('\n')}\n`
}

function seconds(head: string, group: readonly Completed[]): readonly string[] {
  const all = group.map(({ words }) => words[1] ?? '')
  const isOpen = `${seen(head)}; and not ${seen(all.join(' '))}`
  return group.map(({ words, summary }) => word(isOpen, words[1] ?? '', summary))
}

function optionLines({ words, options, takesFiles }: Completed): readonly string[] {
  const isHere = words.map(seen).join('; and ')
  const of = `complete -c tollgate -n ${quoted(isHere)}`
  const kinds = { nothing: '', text: ' -x', file: ' -r -F' } as const
  return [
    ...(takesFiles ? [`${of} -F`] : []),
    ...options.map(({ name, help, takes }) => `${of} -l ${name}${kinds[takes]} -d ${quoted(help)}`),
  ]
}

function word(condition: string, words: string, help: string): string {
  return `complete -c tollgate -n ${quoted(condition)} -a ${quoted(words)} -d ${quoted(help)}`
}

function seen(words: string): string {
  return `__fish_seen_subcommand_from ${words}`
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', String.raw`\\`).replaceAll("'", String.raw`\'`)}'`
}
