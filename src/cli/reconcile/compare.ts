// Compares two counts, and says where they part by more than is tolerated.

import { usageError } from '../command.ts'
import type { DayCount, DayTally } from './tally.ts'

export interface Compared {
  readonly day: string
  readonly model: string
  /** `tokens` is the sum of both, for a backend that reports only the sum. */
  readonly count: 'prompt' | 'completion' | 'tokens'
  /** Undefined if the backend has nothing of this day and model; the same for `ledger`. */
  readonly backend: number | undefined
  readonly ledger: number | undefined
  /** How much more the ledger has. */
  readonly difference: number
  readonly parts: boolean
}

/** Whether two numbers are close enough. */
export type Tolerance = (a: number, b: number) => boolean

/** `1%` of the larger number, or `500` tokens. */
export function parseTolerance(text: string): Tolerance {
  const [, number, unit] = /^(\d{1,15}(?:\.\d{1,6})?)(%?)$/.exec(text) ?? []
  if (number === undefined || (unit === '%' && Number(number) > 100)) {
    const message = `${JSON.stringify(text)} is no tolerance. Write a share, such as 0.5%, or a number of tokens.`
    throw usageError(message)
  }
  const most = Number(number)
  if (unit !== '%') return (a, b) => Math.abs(a - b) <= most
  return (a, b) => Math.abs(a - b) * 100 <= most * Math.max(Math.abs(a), Math.abs(b))
}

/** Each day and model that either has, in order. */
export function compare(
  backend: DayTally,
  ledger: DayTally,
  isTolerated: Tolerance,
): readonly Compared[] {
  const isSplit = backend.sums.every(({ split }) => split !== undefined)
  const alone = ledger.sums.filter(({ day, model }) => !backend.of(day, model))
  return [...backend.sums, ...alone]
    .toSorted((a, b) => order(a.day, b.day) || order(a.model, b.model))
    .flatMap(({ day, model }) => {
      const [a, b] = [backend.of(day, model), ledger.of(day, model)]
      return countsOf(a, isSplit).map((count) => {
        const [left, right] = [valueOf(a, count), valueOf(b, count)]
        const difference = (right ?? 0) - (left ?? 0)
        const parts = !isTolerated(left ?? 0, right ?? 0)
        return { day, model, count, backend: left, ledger: right, difference, parts }
      })
    })
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** A sum that only the ledger has is compared in the same way as the rest of the backend's file. */
function countsOf(backend: DayCount | undefined, isSplit: boolean): readonly Compared['count'][] {
  return (backend ? backend.split !== undefined : isSplit) ? ['prompt', 'completion'] : ['tokens']
}

function valueOf(sum: DayCount | undefined, count: Compared['count']): number | undefined {
  return count === 'tokens' ? sum?.tokens : sum?.split?.[count]
}
