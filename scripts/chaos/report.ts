// The tables that `npm run chaos` prints.

import { table } from '../table.ts'
import type { ChaosReport } from './chaos.ts'
import { kinds } from './outcomes.ts'

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) =>
  a.localeCompare(b)

export function textOf({ outcomes, failOvers, checked, lost, broken }: ChaosReport): string {
  const faults = [...outcomes.faults]
    .sort(byName)
    .map(([name, { times, ms, calls }]) => [
      name,
      times,
      Math.round(ms / 1000),
      ...kinds.map((kind) => calls.get(kind) ?? 0),
    ])
  return [
    table(['fault', 'times', 'seconds', ...kinds], faults),
    table(['answer', 'times'], [...outcomes.answers].sort(byName)),
    table(['checked', 'count'], Object.entries(checked)),
    lostText(failOvers, lost),
    broken.length === 0 ? 'No promise was broken.' : `Broken:\n${broken.join('\n')}`,
  ].join('\n\n')
}

function lostText(failOvers: number, lost: ReadonlyMap<string, number>): string {
  const said = `Another node became a primary ${failOvers} times, with what had reached it`
  if (lost.size === 0) return `${said}: nothing was lost.`
  return `${said}. What was lost, as it may be:\n\n${table(['lost', 'count'], [...lost])}`
}
