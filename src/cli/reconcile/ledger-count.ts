// What the ledger has charged, by day and model: the admin API's sums, of days in UTC, or added up from hours for the
// days of another time zone.

import type { UsageList } from '../../ledger/usage.ts'
import { usageError } from '../command.ts'
import type { Admin } from '../command.ts'
import { daysLater, midnightOf } from './calendar.ts'
import type { Calendar } from './calendar.ts'
import type { Models } from './models.ts'
import { DayTally } from './tally.ts'

/**
 * The sums are kept for 400 days by day, and for 35 by hour (docs/money.md); of the oldest days, a part may be gone.
 */
const keptDays = 398
const keptDaysOfHours = 33
/** Long, because the gateway reads all accounts for this answer. */
const timeoutMs = 600_000
const daySeconds = 86_400
/** No time zone is further from UTC than this. */
const farthestSeconds = 14 * 3600

/** The first day that the ledger has whole. */
export function oldestDay(calendar: Calendar, nowMs: number): string {
  return daysLater(calendar.dayAt(nowMs), calendar.isUtc ? -keptDays : -keptDaysOfHours)
}

export interface LedgerQuery {
  readonly calendar: Calendar
  readonly models: Models
  /** Both days are included. */
  readonly first: string
  readonly last: string
  /** Prompt tokens from a cache are left out. */
  readonly isUncached: boolean
}

export async function readLedgerCount(
  admin: Admin,
  { calendar, models, first, last, isUncached }: LedgerQuery,
): Promise<DayTally> {
  const around = calendar.isUtc ? 0 : farthestSeconds
  const query = new URLSearchParams({
    from: `${secondsOf(first) - around}`,
    to: `${secondsOf(last) + daySeconds + around}`,
    bucket: calendar.isUtc ? 'day' : 'hour',
    group_by: 'model',
  })
  const { data } = await admin.get<UsageList>(`usage?${query}`, { timeoutMs })
  const tally = new DayTally()
  for (const row of data) {
    const day = dayOf(calendar, row.start, row.end)
    if (day < first || day > last) continue
    const prompt = row.prompt_tokens - (isUncached ? row.cached_tokens : 0)
    const completion = row.completion_tokens
    const model = models.ofGateway(row.model ?? '')
    tally.add({ day, model, split: { prompt, completion }, tokens: prompt + completion })
  }
  return tally
}

function dayOf(calendar: Calendar, start: number, end: number): string {
  const day = calendar.dayAt(start * 1000)
  if (day === calendar.dayAt(end * 1000 - 1)) return day
  const message = `The ledger has sums of whole hours, and days in ${calendar.zone} begin within one. Compare days in UTC: --time-zone UTC.`
  throw usageError(message)
}

function secondsOf(day: string): number {
  return (midnightOf(day) ?? 0) / 1000
}
