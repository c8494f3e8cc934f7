// What several workers know of a target as one report: requests are added up, failures are the most that one worker has
// seen, the state is the worst.

import type { TargetReport } from '../plugin.ts'

/** The best first; a state that is not among them is worse. */
const states = ['up', 'loading', 'half_open']

export function joinReports(reports: readonly TargetReport[]): readonly TargetReport[] {
  const joined = new Map<string, TargetReport>()
  for (const report of reports) {
    const key = `${report.model}\n${report.name}`
    const known = joined.get(key)
    joined.set(key, known ? join(known, report) : report)
  }
  return [...joined.values()]
}

function join(one: TargetReport, other: TargetReport): TargetReport {
  const isWorse = badnessOf(other) > badnessOf(one)
  const isSame = other.state === one.state
  const since = isSame ? Math.min(one.since, other.since) : (isWorse ? other : one).since
  return {
    ...one,
    state: isWorse ? other.state : one.state,
    since,
    open: one.open + other.open,
    queue: one.queue + other.queue,
    failures: Math.max(one.failures, other.failures),
  }
}

function badnessOf({ state }: TargetReport): number {
  const at = states.indexOf(state)
  return at < 0 ? states.length : at
}
