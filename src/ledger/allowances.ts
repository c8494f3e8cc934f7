// Reads the texts of allowances and budgets that scripts have written in rows and journal (lua/sums.lua,
// lua/windows.lua), and compares the windows of an account with them.

import { accountWindow, keyWindows, parseWindow } from '../budget.ts'

export interface AllowanceState {
  /** A part of the balance, which is spent first. */
  readonly left: number
  /** Taken from it since it was renewed. */
  readonly used: number
  readonly endsMs: number
}

/** `<left> <used> <end> <plan>`. */
export function parseAllowance(text: string | undefined): AllowanceState | undefined {
  if (!text) return undefined
  const [left, used, end] = text.split(' ').map(Number)
  return { left: left ?? 0, used: used ?? 0, endsMs: end ?? 0 }
}

/** A window of a budget, of the account or of a key, with the tokens of one hold or one charge that count in it. */
export interface CountedIn {
  /** The field of the account's row that has the window. */
  readonly field: string
  readonly since: number
  readonly tokens: number
}

/**
 * `<since> <tokens> <since> <tokens> <key id>:<every>`, for the account's window and for the key's. In the text of a charge,
 * `tokens` count in the window; a number below 0 was given back by a correction. In the text of a hold, `held` −
 * `tokens` count in it.
 */
export function parseCounted(text: string, held?: number): readonly CountedIn[] {
  const [since, tokens, keySince, keyTokens, counter = ''] = text.split(' ')
  const entry = (field: string, name: string | undefined, count: string | undefined) => {
    if (name === undefined || name === '-') return []
    const counted = Number(count)
    const inWindow = held === undefined ? counted : Math.max(0, held - counted)
    return [{ field, since: Number(name), tokens: inWindow }]
  }
  return [
    ...entry(accountWindow, since, tokens),
    ...entry(`${keyWindows}${counter}`, keySince, keyTokens),
  ]
}

/** What was counted in windows, by `<field> <since>`. */
export type CountedTokens = Map<string, number>

export function countIn(counted: CountedTokens, parts: readonly CountedIn[]): void {
  for (const { field, since, tokens } of parts) {
    const name = `${field} ${since}`
    counted.set(name, (counted.get(name) ?? 0) + tokens)
  }
}

/**
 * The windows of an account's row that say something else than what was counted. A window that has ended is compared as
 * well: it is the last one until the next request comes.
 */
export function wrongWindows(
  account: Readonly<Record<string, string>>,
  counted: ReadonlyMap<string, number>,
) {
  return Object.entries(account).flatMap(([field, text]) => {
    const isOfKey = field.startsWith(keyWindows)
    const window = field === accountWindow || isOfKey ? parseWindow(text) : undefined
    if (!window) return []
    const { since, used } = window
    const known = counted.get(`${field} ${since}`) ?? 0
    if (used === known) return []
    const who = isOfKey ? field.slice(keyWindows.length) : 'the account'
    return [{ who, counted: known, used }]
  })
}
