// What admit.lua, identify.lua and extend.lua answer, as typed values: the positions in their replies are known here
// alone. The words are those of the library, so every refusal but `released` is a code of error-table.ts.

import { parseBudget } from '../budget.ts'
import type { LimitState, LimitStates, RefusedCaller } from '../errors.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { parseAllowance } from './allowances.ts'
import { Hold } from './hold.ts'
import { excusable } from './library.ts'
import type { LedgerWords } from './library.ts'

/** `again`: there were more holds to reap. `plan`: the account is on another plan than the one whose limits were sent. `clock`: the windows that were sent are not those of Redis' time. */
export type Asked<Answer> =
  | { readonly is: 'clock'; readonly reaped: 0; readonly nowMs: number }
  | { readonly is: 'again'; readonly reaped: number }
  | { readonly is: 'plan'; readonly reaped: 0; readonly plan: string }
  | { readonly is: 'answer'; readonly reaped: number; readonly answer: Answer }

type AskedAgain = 'again' | 'plan' | 'clock'

export type Admitted = AdmitGranted | AdmitRefused

export type AdmitGranted = ReturnType<typeof granted>

export interface AdmitRefused {
  readonly word: Exclude<LedgerWords['admit'], AskedAgain | 'ok'>
  /** Of an unknown key, neither limits nor caller are known, and all numbers are 0. */
  readonly limits: LimitStates | undefined
  readonly caller: RefusedCaller | undefined
  /** What was reached: `requests` or `tokens` a minute, `account` or `key` (also of a budget), `held` or `balance`. */
  readonly which: string
  readonly available: number
  readonly owed: number
  readonly mostTokens: number
  /** When the budget that was reached is renewed; 0 where it was no budget. */
  readonly renewsAtMs: number
  /** Other requests hold something, which may come back. */
  readonly isHeld: boolean
}

export type Identified =
  { readonly word: 'ok'; readonly identity: AccountIdentity } | IdentifyRefused

export type AccountIdentity = ReturnType<typeof toIdentity>

export interface IdentifyRefused {
  readonly word: Exclude<LedgerWords['identify'], AskedAgain | 'ok'>
  readonly caller: RefusedCaller | undefined
}

export function readAdmitted(reply: Reply<LedgerWords['admit']>): Asked<Admitted> {
  const { word } = reply
  if (word === 'plan') return { is: 'plan', reaped: 0, plan: textAt(reply, 2) }
  if (word === 'clock') return { is: 'clock', reaped: 0, nowMs: reply.nowMs }
  const reaped = numberAt(reply, 2)
  if (word === 'again') return { is: 'again', reaped }
  const answer = word === 'ok' ? granted(reply) : { word, ...refused(reply) }
  return { is: 'answer', reaped, answer }
}

function granted(reply: Reply) {
  return {
    word: 'ok' as const,
    limits: limitsOf(reply),
    /** Balance tokens. */
    amount: numberAt(reply, 7),
    /** Of a hold that was opened again: what its reaping has charged. */
    chargedBefore: numberAt(reply, 8),
    accountId: textAt(reply, 9),
    accountName: textAt(reply, 10),
    plan: textAt(reply, 11),
    keyId: textAt(reply, 12),
    owed: numberAt(reply, 13),
    /** The lower limit of tokens a minute of account and key: no more was counted. */
    mostTokens: mostAt(reply, 14),
    /** With what it would have been refused, if this were not shadow mode. */
    wouldRefuse: excusable.find((code) => code === textAt(reply, 15)),
    /** Balance tokens that were available before this hold. */
    available: numberAt(reply, 16),
    nowMs: reply.nowMs,
  }
}

type NewHold = Pick<
  Hold['fields'],
  'id' | 'ref' | 'hmac' | 'model' | 'meta' | 'countedTokens' | 'isShadow'
>

export function toHold(asked: NewHold, granted: AdmitGranted): Hold {
  const { limits, accountId, accountName, plan, keyId, wouldRefuse, available, nowMs } = granted
  const minute = Math.floor(nowMs / minuteMs)
  const found = { accountId, accountName, plan, keyId, limits, minute, wouldRefuse, available }
  return new Hold({ ...asked, ...found }, granted.amount)
}

const ofUnknownKey = {
  limits: undefined,
  caller: undefined,
  which: '',
  available: 0,
  owed: 0,
  mostTokens: 0,
  renewsAtMs: 0,
  isHeld: false,
}

function refused(reply: Reply): Omit<AdmitRefused, 'word'> {
  if (reply.values.length <= 3) return ofUnknownKey
  return {
    limits: limitsOf(reply),
    which: textAt(reply, 7),
    available: numberAt(reply, 8),
    caller: callerOf(reply, 9),
    owed: numberAt(reply, 11),
    mostTokens: mostAt(reply, 12),
    renewsAtMs: numberAt(reply, 13),
    isHeld: numberAt(reply, 14) > 0,
  }
}

/** What has become of a hold that was to be larger. */
export type Extended =
  | { readonly word: 'ok'; readonly amount: number; readonly available: number }
  | { readonly word: 'gone' | 'account_suspended' }

export function readExtended(reply: Reply<LedgerWords['extend']>): Asked<Extended> {
  const { word } = reply
  if (word === 'clock') return { is: 'clock', reaped: 0, nowMs: reply.nowMs }
  const reaped = numberAt(reply, 2)
  if (word === 'again') return { is: 'again', reaped }
  const answer =
    word === 'ok' ? { word, amount: numberAt(reply, 3), available: numberAt(reply, 4) } : { word }
  return { is: 'answer', reaped, answer }
}

export function readIdentified(reply: Reply<LedgerWords['identify']>): Asked<Identified> {
  const { word } = reply
  if (word === 'plan') return { is: 'plan', reaped: 0, plan: textAt(reply, 2) }
  if (word === 'clock') return { is: 'clock', reaped: 0, nowMs: reply.nowMs }
  const reaped = numberAt(reply, 2)
  if (word === 'again') return { is: 'again', reaped }
  const answer =
    word === 'ok' ? { word, identity: toIdentity(reply) } : { word, caller: callerOf(reply, 3) }
  return { is: 'answer', reaped, answer }
}

function toIdentity(reply: Reply) {
  const limit = numberAt(reply, 13)
  return {
    accountId: textAt(reply, 3),
    accountName: textAt(reply, 4),
    plan: textAt(reply, 5),
    keyId: textAt(reply, 6),
    /** The models that the key may use; `*` allows all. */
    models: textAt(reply, 7).split(' '),
    granted: numberAt(reply, 8),
    spent: numberAt(reply, 9),
    reserved: numberAt(reply, 10),
    owed: numberAt(reply, 11),
    /** The key's own limit. */
    tokensPerMinute: limit < 0 ? undefined : limit,
    allowance: parseAllowance(textAt(reply, 14)),
    budget: parseBudget(textAt(reply, 15), textAt(reply, 16), reply.nowMs),
    /** Read by `look` alone. */
    keyBudget: parseBudget(textAt(reply, 17), textAt(reply, 18), reply.nowMs),
    nowMs: reply.nowMs,
  }
}

export const minuteMs = 60_000

/** Positions 3 to 6 of admit's reply, granted or refused; -1 is no limit. */
function limitsOf(reply: Reply): LimitStates {
  const resetMs = minuteMs - (reply.nowMs % minuteMs)
  const count = (at: number): LimitState | undefined => {
    const limit = numberAt(reply, at)
    return limit < 0 ? undefined : { limit, remaining: numberAt(reply, at + 1), resetMs }
  }
  return { requests: count(3), tokens: count(5) }
}

function mostAt(reply: Reply, at: number): number {
  const most = numberAt(reply, at)
  return most < 0 ? Infinity : most
}

/** Undefined for an unknown key, whose reply names neither account nor key. */
function callerOf({ values }: Reply, at: number): RefusedCaller | undefined {
  const [accountId, keyId] = values.slice(at, at + 2)
  return accountId && keyId ? { accountId: String(accountId), keyId: String(keyId) } : undefined
}
