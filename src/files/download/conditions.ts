// Conditional requests (RFC 9110 §13) for content that never changes: whether the content is sent, is still fresh at
// the client, or fails a precondition. A condition that cannot be read is never met. Pure.

import type { IncomingHttpHeaders } from 'node:http'

export interface Validators {
  /** Strong, with its quotes. */
  readonly etag: string
  /** Unix seconds. */
  readonly modifiedAt: number
}

export type ConditionVerdict = 'send' | 'not_modified' | 'precondition_failed'

/** For GET and HEAD, in the order of RFC 9110 §13.2.2; a date counts only when the header with a tag is absent. */
export function judgeConditions(file: Validators, headers: IncomingHttpHeaders): ConditionVerdict {
  const { 'if-match': match, 'if-none-match': noneMatch } = headers
  const holds =
    match === undefined
      ? file.modifiedAt <= (parseHttpDate(headers['if-unmodified-since']) ?? Infinity)
      : names(match, file.etag, 'strong')
  if (!holds) return 'precondition_failed'
  const isFresh =
    noneMatch === undefined
      ? file.modifiedAt <= (parseHttpDate(headers['if-modified-since']) ?? -Infinity)
      : names(noneMatch, file.etag, 'weak')
  return isFresh ? 'not_modified' : 'send'
}

/** Whether the Range header counts: when If-Range is absent, or has exactly this tag or date. */
export function isRangeMeant(
  file: Validators,
  { 'if-range': given }: IncomingHttpHeaders,
): boolean {
  if (given === undefined) return true
  // The content never changes, so even its date is a strong validator (§8.8.2.2).
  return given === file.etag || parseHttpDate(given) === file.modifiedAt
}

const tags = /(W\/)?("[!\x23-\x7e\x80-\xff]*")/g

/** A weak tag is equal to none by strong comparison (§8.8.3.2). */
function names(list: string, etag: string, comparison: 'strong' | 'weak'): boolean {
  if (list.trim() === '*') return true
  for (const [, weak, tag] of list.matchAll(tags)) {
    if (tag === etag && (comparison === 'weak' || weak === undefined)) return true
  }
  return false
}

const day = '(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)'
const longDay = '(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day'
const month = '(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)'
const time = '\\d\\d:\\d\\d:\\d\\d'

/** The three forms that a recipient must know (§5.6.7). The last one, of C's asctime, names no zone and means GMT. */
const zoned = new RegExp(
  `^(?:${day}, \\d\\d ${month} \\d{4}|${longDay}, \\d\\d-${month}-\\d\\d) ${time} GMT$`,
)
const zoneless = new RegExp(`^${day} ${month} [ \\d]\\d ${time} \\d{4}$`)

/** Unix seconds. `Date.parse` alone takes `2026`, or `yes 1`. */
function parseHttpDate(text: string | undefined | readonly string[]): number | undefined {
  if (typeof text !== 'string') return undefined
  const date = zoned.test(text) ? text : zoneless.test(text) ? `${text} GMT` : ''
  const ms = Date.parse(date)
  return Number.isNaN(ms) ? undefined : ms / 1000
}
