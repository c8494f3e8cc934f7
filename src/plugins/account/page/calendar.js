// Days of the calendar in the browser's time zone. Days of 23 and 25 hours are counted as one, too.

/** Fields have years outside of these while somebody types. */
const years = { first: 1971, last: 2999 }

/** @param {Date} date */
export function midnight(date) {
  return daysAgo(date, 0)
}

/**
 * @param {Date} date
 * @param {number} count
 */
export function daysAgo(date, count) {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate() - count)
}

/**
 * The midnights from `count - 1` days ago until today, in Unix seconds.
 * @param {number} count
 */
export function lastDays(count, today = new Date()) {
  return daysBetween(daysAgo(today, count - 1), today)
}

/**
 * Midnights, in Unix seconds.
 * @param {Date} from
 * @param {Date} to included
 */
export function daysBetween(from, to) {
  const days = []
  for (let day = midnight(from); day <= to; day = daysAgo(day, -1)) days.push(secondsOf(day))
  return days
}

/** @param {Date} date */
export const secondsOf = (date) => date.getTime() / 1000

/**
 * As a field for a date has it.
 * @param {Date} date
 */
export function isoOf(date) {
  const two = (/** @type {number} */ value) => String(value).padStart(2, '0')
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
}

/**
 * The midnight of a day; undefined where a field has none.
 * @param {string} iso
 */
export function dateFrom(iso) {
  const [year = NaN, month = NaN, day = NaN] = iso.split('-').map(Number)
  const isYear = year >= years.first && year <= years.last
  const date = new Date(year, month - 1, day)
  return isYear && !Number.isNaN(date.getTime()) ? date : undefined
}
