// The tables that `npm run chaos` prints.

import { table } from '../table.ts'
import type { ChaosReport } from './chaos.ts'
import { kinds } from './outcomes.ts'
import type { FailOver } from './risks.ts'

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
    failOverTable(failOvers),
    lostText(lost),
    broken.length === 0 ? 'No promise was broken.' : `Broken:\n${broken.join('\n')}`,
  ].join('\n\n')
}

/** At risk: what a primary acknowledged in this time may be lost. */
function failOverTable(failOvers: readonly FailOver[]): string {
  const rows = [true, false].map((isPlanned) => {
    const some = failOvers.filter((one) => one.isPlanned === isPlanned)
    const spans = some.flatMap(({ atRisk }) => atRisk)
    const ms = spans.reduce((sum, { from, to }) => sum + to - from, 0)
    const risky = some.filter(({ atRisk }) => atRisk.length > 0)
    return [isPlanned ? 'planned' : 'unplanned', some.length, risky.length, ms / 1000]
  })
  return table(['fail-overs', 'times', 'with a risk', 'seconds at risk'], rows)
}

function lostText(lost: ReadonlyMap<string, number>): string {
  if (lost.size === 0) return 'Nothing was lost by a fail-over.'
  return `What was lost by fail-overs, as it may be:\n\n${table(['lost', 'count'], [...lost])}`
}
