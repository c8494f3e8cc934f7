// Usage by the days of the browser's time zone, from rows by the hour: the gateway's own days are those of UTC. In a
// zone that is off by half an hour, an hour that belongs to two days counts for the day in which it begins.

import { daysAgo, secondsOf } from './calendar.js'

/** @typedef {import('./shapes.js').UsageRow} UsageRow */

/**
 * @typedef {object} Day
 * @property {number} start midnight, Unix seconds
 * @property {Map<string, Sum>} by by model or key
 *
 * @typedef {{ requests: number, prompt: number, completion: number, cached: number, cost: number }} Sum
 */

/** @returns {Sum} */
export const nothing = () => ({ requests: 0, prompt: 0, completion: 0, cached: 0, cost: 0 })

/**
 * @param {Sum} sum
 * @param {Sum} more
 */
export function add(sum, more) {
  for (const name of /** @type {(keyof Sum)[]} */ (Object.keys(sum))) sum[name] += more[name]
}

/**
 * @param {UsageRow} row
 * @returns {Sum}
 */
function sumOf(row) {
  return {
    requests: row.requests,
    prompt: row.prompt_tokens,
    completion: row.completion_tokens,
    cached: row.cached_tokens ?? 0,
    // What was waived is nobody's cost.
    cost: row.cost - (row.waived ?? 0),
  }
}

const hour = 3600

/**
 * The hours that begin on these days, for a query: the gateway answers all hours that have a part in it.
 * @param {{ first: Date, last: Date }} days
 */
export function hoursOf({ first, last }) {
  return {
    from: Math.ceil(secondsOf(first) / hour) * hour,
    to: secondsOf(daysAgo(last, -1)),
    bucket: 'hour',
  }
}

/**
 * @param {readonly UsageRow[]} rows
 * @param {readonly number[]} days
 * @param {'model' | 'key_id'} field
 * @returns {Day[]}
 */
export function byDay(rows, days, field) {
  const found = days.map((start) => ({ start, by: new Map() }))
  for (const row of rows) {
    const day = found.findLast(({ start }) => start <= row.start)
    if (!day) continue
    const name = row[field] ?? ''
    const sum = day.by.get(name) ?? nothing()
    add(sum, sumOf(row))
    day.by.set(name, sum)
  }
  return found
}

/**
 * The names in the days, largest first.
 * @param {readonly Day[]} days
 * @param {(sum: Sum) => number} measure
 * @returns {{ name: string, total: Sum }[]}
 */
export function namesOf(days, measure) {
  /** @type {Map<string, Sum>} */
  const totals = new Map()
  for (const { by } of days) {
    for (const [name, sum] of by) {
      const total = totals.get(name) ?? nothing()
      add(total, sum)
      totals.set(name, total)
    }
  }
  return [...totals]
    .map(([name, total]) => ({ name, total }))
    .toSorted((a, b) => measure(b.total) - measure(a.total))
}
