// Days of a time zone, as text: `2026-11-20`. Texts of four-digit years compare as the days do.

import { usageError } from '../command.ts'

export interface Calendar {
  readonly zone: string
  readonly isUtc: boolean
  dayAt(ms: number): string
}

const dayMs = 86_400_000

/** `zone` is an IANA name, such as Europe/Berlin. */
export function calendarOf(zone: string): Calendar {
  const format = formatOf(zone)
  const isUtc = format.resolvedOptions().timeZone === 'UTC'
  return { zone, isUtc, dayAt: (ms) => (isUtc ? dayOf(ms) : format.format(ms)) }
}

function formatOf(zone: string): Intl.DateTimeFormat {
  try {
    // The Swedes write dates as ISO 8601 does.
    return new Intl.DateTimeFormat('sv-SE', { timeZone: zone })
  } catch {
    const message = `${JSON.stringify(zone)} is no time zone. Write an IANA name, such as Europe/Berlin or UTC.`
    throw usageError(message)
  }
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

/** The day's midnight in UTC; undefined if the calendar has no such day. */
export function midnightOf(day: string): number | undefined {
  if (!/^\d{4}-\d\d-\d\d$/.test(day)) return undefined
  const ms = Date.parse(day)
  return Number.isNaN(ms) || dayOf(ms) !== day ? undefined : ms
}

export function daysLater(day: string, days: number): string {
  return dayOf(Date.parse(day) + days * dayMs)
}
