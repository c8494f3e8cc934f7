// Parsers for what people write on a command line: amounts, durations, lists, pairs. Each throws a usage error.

import { parseBudget as readBudget } from '../budget.ts'
import type { TokenBudget, BudgetState } from '../budget.ts'
import { usageError } from './command.ts'
import { formatAmount, formatTime } from './table.ts'

/** `1000000`, `1_000_000`, `+5`, `-5`; also with the minus sign that withMinus in run.ts writes. */
export function parseAmount(text: string): number {
  const plain = text.replace('−', '-').replaceAll('_', '')
  const amount = Number(plain)
  if (/^[+-]?\d+$/.test(plain) && Number.isSafeInteger(amount)) return amount
  throw usageError(
    `${JSON.stringify(text)} is no amount. Write a whole number of tokens, such as 1000000.`,
  )
}

const secondsOf: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 }

/** `30s 15m 1h 90d`, and 0, in seconds. */
export function parseSeconds(text: string): number {
  const [, count, unit] = /^(\d{1,9})([smhd]?)$/.exec(text) ?? []
  const each = secondsOf[unit ?? '']
  if (count !== undefined && each !== undefined) return Number(count) * each
  if (Number(count) === 0) return 0
  throw usageError(
    `${JSON.stringify(text)} is no time. Write a number with its unit: 30s, 15m, 1h or 90d.`,
  )
}

/**
 * A time from now (`90d`), a day (`2027-01-31`, its beginning, UTC) or a time (`2027-01-31T12:00Z`), in Unix seconds.
 */
export function parseMoment(text: string, nowMs = Date.now()): number {
  if (/^\d{4}-\d{2}-\d{2}(T|$)/.test(text)) {
    const ms = Date.parse(text)
    if (!Number.isNaN(ms)) return Math.floor(ms / 1000)
    throw usageError(`${JSON.stringify(text)} is no date.`)
  }
  return Math.floor(nowMs / 1000) + parseSeconds(text)
}

/** `chat,files`, or the option given several times, or both. */
export function parseList(texts: readonly string[] | undefined): readonly string[] | undefined {
  return texts?.flatMap((text) => text.split(',').map((word) => word.trim())).filter(Boolean)
}

/** `team=chat`; each text is one pair. */
export function parsePairs(
  texts: readonly string[] | undefined,
): Readonly<Record<string, string>> | undefined {
  const pairs = texts?.map((text) => {
    const at = text.indexOf('=')
    if (at < 1) throw usageError(`${JSON.stringify(text)} is no pair. Write name=value.`)
    return [text.slice(0, at), text.slice(at + 1)] as const
  })
  return pairs && Object.fromEntries(pairs)
}

/** A whole number of at least 1. */
export function parseCount(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const count = Number(text)
  if (/^\d+$/.test(text) && count >= 1 && Number.isSafeInteger(count)) return count
  throw usageError(`--${name} takes a whole number, 1 or more.`)
}

export const budgetHelp = 'the most that it may spend: 100000/month, /week or /day'

/** `100000/month`; `none` is null. */
export function parseBudget(text: string | undefined): TokenBudget | null | undefined {
  if (text === undefined) return undefined
  if (text === 'none') return null
  const [, tokens = '', every] = /^(\d[\d_]*)\/(\w+)$/.exec(text) ?? []
  const budget = readBudget(`${tokens.replaceAll('_', '')} ${every}`, undefined, 0)
  if (budget && Number.isSafeInteger(budget.tokens)) {
    return { tokens: budget.tokens, every: budget.every }
  }
  throw usageError(
    `${JSON.stringify(text)} is no budget. Write tokens and a window, such as 100000/month, or none.`,
  )
}

/** `30 of 100,000 a month`. */
export function formatBudget(budget: BudgetState | null): string {
  if (!budget) return ''
  const { tokens, every, used, renews_at } = budget
  const until = renews_at === null ? '' : `, until ${formatTime(renews_at)}`
  return `${formatAmount(used)} of ${formatAmount(tokens)} a ${every}${until}`
}
