// The options of commands that list transactions or usage, and the query that they become.

import { exit } from './command.ts'
import type { Call, Options } from './command.ts'
import { parseMoment } from './values.ts'

export const timeOptions: Options = {
  from: { value: 'TIME', help: 'from this time on: 2026-11-01, or 30d for the last 30 days' },
  to: { value: 'TIME', help: 'before this time' },
}

export const originOptions: Options = {
  model: { value: 'MODEL', help: 'only of this model' },
  key: { value: 'KEY', help: 'only of the key with this id' },
}

export const csvOption: Options = {
  csv: { help: 'CSV of all rows, the oldest first, for spreadsheets' },
}

/** Prints all rows of a list as CSV. */
export async function printCsv(call: Call, target: string, query: URLSearchParams) {
  query.set('format', 'csv')
  const admin = await call.admin()
  await admin.download(`${target}?${query}`, call.io.stdout)
  return exit.ok
}

/** The filters that were given, and more parameters; those without a value are left out. */
export function queryOf(
  call: Call,
  more: Readonly<Record<string, string | undefined>> = {},
): URLSearchParams {
  const query = new URLSearchParams()
  for (const name of ['from', 'to']) {
    const text = call.text(name)
    if (text !== undefined) query.set(name, `${parsePast(text)}`)
  }
  const words = { model: call.text('model'), key: call.text('key'), ...more }
  for (const [name, value] of Object.entries(words)) if (value !== undefined) query.set(name, value)
  return query
}

/** Reads a day, a time, Unix seconds, or how long ago (`30d`). Returns Unix seconds. */
export function parsePast(text: string, nowMs = Date.now()): number {
  if (/^\d{9,11}$/.test(text)) return Number(text)
  const moment = parseMoment(text, nowMs)
  const now = Math.floor(nowMs / 1000)
  return /^\d{4}-/.test(text) ? moment : now - (moment - now)
}
