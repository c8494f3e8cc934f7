// How numbers, money and times are written: by the browser's language and time zone.

const whole = new Intl.NumberFormat()
const short = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })
const date = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' })
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })

export const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone

/** @param {number} value */
export const number = (value) => whole.format(value)

/** @param {number} value */
export const shortNumber = (value) => short.format(value)

/** @param {number} seconds */
export const shortDay = (seconds) => day.format(seconds * 1000)

/** @param {number} seconds */
export const dateOf = (seconds) => date.format(seconds * 1000)

/** @param {number} seconds */
export const momentOf = (seconds) => moment.format(seconds * 1000)

/** @type {readonly (readonly [Intl.RelativeTimeFormatUnit, number])[]} */
const units = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
]

/**
 * Such as “3 days ago” or “in 2 hours”.
 * @param {number} seconds
 */
export function ago(seconds) {
  const distance = seconds - Date.now() / 1000
  const [unit, length] = units.find(([, size]) => Math.abs(distance) >= size) ?? ['second', 1]
  return relative.format(Math.round(distance / length), unit)
}

/**
 * @typedef {{ code: string, tokens: number }} Currency `tokens` balance tokens are one unit of `code`.
 */

/**
 * Undefined where the operator has not said what tokens are worth. Sums below 1 have at most two significant digits.
 * @param {number} tokens
 * @param {Currency | null | undefined} currency
 */
export function money(tokens, currency) {
  if (!currency) return undefined
  const value = tokens / currency.tokens
  const isSmall = value !== 0 && Math.abs(value) < 1
  const digits = isSmall ? { maximumSignificantDigits: 2 } : {}
  return new Intl.NumberFormat(undefined, {
    style: 'currency',
    currency: currency.code,
    ...digits,
  }).format(value)
}

/** @param {number} count */
export function bytes(count) {
  const unit =
    count < 1024
      ? 'byte'
      : count < 1024 ** 2
        ? 'kilobyte'
        : count < 1024 ** 3
          ? 'megabyte'
          : 'gigabyte'
  const size = { byte: 1, kilobyte: 1024, megabyte: 1024 ** 2, gigabyte: 1024 ** 3 }[unit]
  return new Intl.NumberFormat(undefined, {
    style: 'unit',
    unit,
    unitDisplay: unit === 'byte' ? 'long' : 'short',
    maximumFractionDigits: 1,
  }).format(count / size)
}
