// Budgets, as operators set and see them and as rows in Redis have them: what may be spent in a day, a week or a month.
// The field `budget` of an account's row or a key's row has its budget. The account's row has the running windows,
// those of its keys too. lua/budgets.lua and lua/budget_charges.lua of the ledger count in them.

export const everies = ['day', 'week', 'month'] as const

export type Every = (typeof everies)[number]

/** Balance tokens for each window. */
export interface TokenBudget {
  readonly tokens: number
  readonly every: Every
}

/** A budget with its running window. */
export interface BudgetState extends TokenBudget {
  /** Charges, and what is held for running requests. */
  readonly used: number
  /** Unix seconds; null while no window runs: the next request begins one. */
  readonly renews_at: number | null
}

export interface BudgetWindow {
  readonly every: string
  /** When its first request came, in ms. No two windows of a budget began at the same time, so this names the window. */
  readonly since: number
  readonly endsMs: number
  readonly used: number
}

/** The field of the account's row that has the window of its own budget. */
export const accountWindow = 'window'

/** The beginning of the fields that have windows of keys' budgets. */
export const keyWindows = `${accountWindow}:`

/**
 * The field with the window of a key's budget. A key made by a rotation counts in the window of the first key that it
 * goes back to: `keyId` is then the id of that one (`budget_of` in the key's row).
 */
export const keyWindow = (keyId: string, { every }: Pick<TokenBudget, 'every'>) =>
  `${keyWindows}${keyId}:${every}`

/** `''` is none: HSET takes no null. */
export function budgetText(budget: TokenBudget | null): string {
  return budget ? `${budget.tokens} ${budget.every}` : ''
}

/** `text` is the budget, `windowText` the window that ran last; undefined where there is no budget. */
export function parseBudget(
  text: string | undefined,
  windowText: string | null | undefined,
  nowMs: number,
): BudgetState | undefined {
  const [tokens, unit] = (text ?? '').split(' ')
  const every = everies.find((one) => one === unit)
  if (!every) return undefined
  const window = parseWindow(windowText)
  const isRunning = window?.every === every && nowMs < window.endsMs
  return {
    tokens: Number(tokens),
    every,
    used: isRunning ? window.used : 0,
    renews_at: isRunning ? Math.floor(window.endsMs / 1000) : null,
  }
}

/** `<every> <since> <end> <used>`. */
export function parseWindow(text: string | null | undefined): BudgetWindow | undefined {
  if (!text) return undefined
  const [every = '', since, end, used] = text.split(' ')
  return { every, since: Number(since), endsMs: Number(end), used: Number(used) }
}
