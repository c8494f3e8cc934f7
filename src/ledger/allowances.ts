// What plans give as an allowance, for scripts; what is left of one, and what counts in windows of budgets, as the rows in
// Redis and the journal have it. The scripts write that (lua/allowance.lua, lua/renewal.lua, lua/budgets.lua).

import type { Plan } from '../config/config.ts'
import { accountWindow, keyWindows } from '../budget.ts'

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

/** What a plan gives, as scripts take it. */
export function allowanceWords(plan: Pick<Plan, 'allowance'> | undefined): string {
  const { allowance } = plan ?? {}
  if (!allowance) return '- - 0'
  return `${allowance.tokens} ${allowance.every} ${allowance.rollover ? 1 : 0}`
}

/** Windows of budgets that a hold counts in, or that a charge was counted in: of the account, and of a key. */
export interface CountedIn {
  /** The field of the account's row that has the window. */
  readonly field: string
  readonly since: number
  readonly tokens: number
}

/** `<since> <tokens> <since> <tokens> <key id>:<every>`: of a charge; where it is of a hold, the first tokens count elsewhere. */
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
