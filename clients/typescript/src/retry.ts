// How long to wait before an attempt. Pure but for the clock and the dice.

import { APIError } from './errors.ts'

const longestMs = 60_000
const firstMs = 500
const capMs = 8000

/** Of an answer, in seconds; null where it says nothing of use. */
export function retryAfterOf(headers: Headers, now = Date.now()): number | null {
  const ms = numberOf(headers.get('retry-after-ms'))
  if (ms !== null) return ms / 1000
  const value = headers.get('retry-after')
  return numberOf(value) ?? secondsUntil(value, now)
}

/** In ms, before another attempt; `failed`: attempts that have failed without progress before this one did. */
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

/** Of an HTTP date that is still to come. */
function secondsUntil(value: string | null, now: number): number | null {
  if (value === null || !/\d\d:\d\d:\d\d GMT$/.test(value)) return null
  const ms = Date.parse(value) - now
  return ms > 0 ? ms / 1000 : null
}
