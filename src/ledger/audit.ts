// The audit: recomputes accounts from their journals and open holds, and tells what does not add up. It goes over all
// accounts in the order of their creation, a few at a time, and tells after each few how far it is: from there another
// audit can go on. It holds nothing but those few accounts in memory, and stops when its caller leaves.

import { endsWithin } from '../sharing/patience.ts'
import { accountsAtOnce, auditAccount } from './audit-account.ts'
import type { AuditPlace } from './audit-account.ts'
import type { Difference } from './tally.ts'
import { countAccounts, walkAccounts } from './walk.ts'

export interface AuditRequest {
  /** Only this account. */
  readonly ref?: string | undefined
  /** An account's id: only the accounts that were created after it. */
  readonly after?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** How far an audit is. The counts are of the whole audit. */
export interface AuditStep {
  readonly accounts: number
  readonly entries: number
  readonly difference_count: number
  /** How many accounts there were to check when it began. */
  readonly total: number
  /** The account up to which all are checked: an audit `after` it checks the rest. Null at the beginning of an audit of all, and always in an audit of one account. */
  readonly cursor: string | null
  /** Those that are new since the last step; at most the first hundred of each account. */
  readonly differences: readonly Difference[]
}

/** A step is due after so long, also while one long journal is read. */
const longestStepMs = 1000

/** The first step comes before any account, and says how many there are. */
export async function* auditSteps(
  place: AuditPlace,
  { ref, after, signal }: AuditRequest,
): AsyncGenerator<AuditStep> {
  const total = ref === undefined ? await countAccounts(place.redis, after) : 1
  let done = { accounts: 0, difference_count: 0, cursor: after ?? null }
  let entries = 0
  const step = (differences: readonly Difference[]): AuditStep => ({
    ...done,
    entries,
    total,
    differences,
  })
  const onEntries = (count: number) => void (entries += count)
  // However the audit ends, nobody waits for what is still being read.
  const ended = new AbortController()
  const stops = AbortSignal.any(signal ? [signal, ended.signal] : [ended.signal])
  yield step([])
  const all = () => walkAccounts(place.redis, accountsAtOnce, after)
  const groups = ref === undefined ? all() : [[{ ref, id: undefined }]]
  try {
    for await (const group of groups) {
      stops.throwIfAborted()
      const work = Promise.all(
        group.map(({ ref }) => auditAccount(place, ref, { signal: stops, onEntries })),
      )
      while (!(await endsWithin(work, longestStepMs))) yield step([])
      const tallies = await work
      const found = tallies.reduce((sum, { differenceCount }) => sum + differenceCount, 0)
      done = {
        accounts: done.accounts + group.length,
        difference_count: done.difference_count + found,
        cursor: group.at(-1)?.id ?? done.cursor,
      }
      yield step(found === 0 ? [] : tallies.flatMap(({ differences }) => differences))
    }
  } finally {
    ended.abort()
  }
}

export interface AuditReport {
  readonly object: 'audit'
  readonly accounts: number
  readonly entries: number
  readonly differences: readonly Difference[]
  /** Also of those that are not listed. */
  readonly difference_count: number
}

/** How many differences a report lists. */
const mostListed = 1000

/** The whole audit as one report. */
export async function audit(place: AuditPlace, request: AuditRequest): Promise<AuditReport> {
  const differences: Difference[] = []
  let [accounts, entries, count] = [0, 0, 0]
  for await (const step of auditSteps(place, request)) {
    for (const one of step.differences) if (differences.length < mostListed) differences.push(one)
    ;({ accounts, entries, difference_count: count } = step)
  }
  return { object: 'audit', accounts, entries, differences, difference_count: count }
}
