// The day, the week and the month that allowances and budgets go by: where they begin and end in a time zone. Scripts
// take them as text and compare them with the clock of Redis. If Redis' time lies outside of the window that a script
// needs, `learn` sets the clock here by it.

import { everies } from '../budget.ts'
import type { Every } from '../budget.ts'

/** In ms; the end is the beginning of the next one. */
interface Window {
  readonly startMs: number
  readonly endMs: number
}

export class Windows {
  readonly #format: Intl.DateTimeFormat
  readonly #now: () => number
  #offsetMs = 0
  #day: Window = { startMs: 0, endMs: 0 }
  #text = ''

  constructor(timeZone: string, now: () => number = Date.now) {
    this.#format = calendarOf(timeZone)
    this.#now = now
  }

  /** What Redis' clock says. */
  learn(nowMs: number): void {
    this.#offsetMs = nowMs - this.#now()
  }

  /** `<start> <end>` of the day, the week and the month, as scripts take them. */
  get text(): string {
    const now = this.#now() + this.#offsetMs
    // A week and a month end where a day ends.
    if (now >= this.#day.startMs && now < this.#day.endMs) return this.#text
    const windows = everies.map((every) => this.#windowAt(every, now))
    this.#day = windows[0] ?? this.#day
    this.#text = windows.map(({ startMs, endMs }) => `${startMs} ${endMs}`).join(' ')
    return this.#text
  }

  #windowAt(every: Every, atMs: number): Window {
    const [first, next] = borders(every, dateAt(this.#format, atMs))
    return { startMs: this.#startOf(first), endMs: this.#startOf(next) }
  }

  /** The first instant of this date. If the zone left the date out, as Samoa once did, the first instant after it. */
  #startOf(date: number): number {
    // No clock is more than a day away from UTC.
    let [before, from] = [date - dayMs, date + dayMs]
    while (from - before > 1) {
      const middle = Math.floor((before + from) / 2)
      if (dateAt(this.#format, middle) < date) before = middle
      else from = middle
    }
    return from
  }
}

const dayMs = 86_400_000

function calendarOf(timeZone: string): Intl.DateTimeFormat {
  const numbers = { year: 'numeric', month: 'numeric', day: 'numeric' } as const
  return new Intl.DateTimeFormat('en-u-ca-iso8601-nu-latn', { timeZone, ...numbers })
}

/** The date in the zone, as its midnight in UTC. */
function dateAt(format: Intl.DateTimeFormat, atMs: number): number {
  const parts = format.formatToParts(atMs)
  const [year, month, day] = (['year', 'month', 'day'] as const).map((type) =>
    Number(parts.find((part) => part.type === type)?.value),
  )
  return Date.UTC(year ?? 0, (month ?? 1) - 1, day)
}

/** The first date of the window that has this one, and that of the next window. */
function borders(every: Every, date: number): readonly [number, number] {
  if (every === 'day') return [date, date + dayMs]
  const at = new Date(date)
  if (every === 'week') {
    const monday = date - ((at.getUTCDay() + 6) % 7) * dayMs
    return [monday, monday + 7 * dayMs]
  }
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()]
  return [Date.UTC(year, month), Date.UTC(year, month + 1)]
}
