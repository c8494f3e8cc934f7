// How long to wait before an attempt. Pure, apart from the clock and the random numbers.

import { APIError } from './errors.ts'

const longestMs = 60_000
const firstMs = 500
const capMs = 8000

/** What an answer says, in seconds; null when it says nothing usable. */
export function retryAfterOf(headers: Headers, now = Date.now()): number | null {
  const ms = numberOf(headers.get('retry-after-ms'))
  if (ms !== null) return ms / 1000
  const value = headers.get('retry-after')
  return numberOf(value) ?? secondsUntil(value, now)
}

/** The wait in ms before the next attempt; `failed`: attempts that have failed without progress before this one. */
export function waitAfter(error: unknown, failed: number): number {
  const told = error instanceof APIError ? error.retryAfter : null
  if (told !== null) return Math.min(told * 1000, longestMs)
  return Math.random() * Math.min(capMs, firstMs * 2 ** failed)
}

function numberOf(value: string | null): number | null {
  if (value === null || !/^\d+(\.\d+)?$/.test(value.trim())) return null
  const number = Number(value)
  return Number.isFinite(number) ? number : null
}

/** The wait until an HTTP date in the future. */
function secondsUntil(value: string | null, now: number): number | null {
  if (value === null || !/\d\d:\d\d:\d\d GMT$/.test(value)) return null
  const ms = Date.parse(value) - now
  return ms > 0 ? ms / 1000 : null
}
