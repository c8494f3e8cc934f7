// Both sides of admit.lua and of extend.lua: what a request or a hold asks of them, and their replies as a hold, or as the
// error for the client. Only this file knows the positions in their arguments and replies, except for the first argument,
// the first two values of a reply and the plan's name behind `plan`. admission.ts decides when and how often the scripts
// are called.

import type { Plan, Price } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import type { ErrorDetails, LimitState, LimitStates, RefusedCaller } from '../errors.ts'
import { numberAt, textAt, unavailable } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { Hold } from './hold.ts'
import { progressWords } from './leases.ts'
import { excusable } from './library.ts'
import type { AskedAgain, LedgerWords } from './library.ts'
import { priceText, wholeAmount, wholeTokens } from './price.ts'

export interface IdentifyRequest {
  readonly ref: string
  readonly hmac: string
  /** '' requires no scope. */
  readonly scope: string
}

export interface AdmitRequest extends IdentifyRequest {
  /** A UUIDv7 as 32 hex digits, new for each request. */
  readonly holdId: string
  /** Balance tokens that the hold should have. */
  readonly amount: number
  /** Below this the request is refused. */
  readonly min: number
  /** The hold will be extended: beyond `min` it takes no more than a share of what is available. */
  readonly isSliced?: boolean
  readonly promptTokens: number
  readonly outputTokens: number
  /** The fewest output tokens that suffice when the limit of tokens a minute is lower than what is wanted. Default: `outputTokens`. */
  readonly leastOutputTokens?: number
  /** What the refusal says when even the fewest tokens exceed that limit. */
  neverFits?(limit: number): Pick<ErrorDetails, 'param' | 'message'>
  /** Model id as configured. */
  readonly model: string
  readonly meta: HoldMeta
  /** Shadow mode: limits and money do not refuse it, and what the account cannot pay of it is waived. */
  readonly isShadow?: boolean
}

/** What a transaction says of its request. */
export interface HoldMeta {
  readonly requestId: string
  /** The price by which the whole request is charged. */
  readonly price?: Price
  readonly sessionId?: string
  readonly messageId?: string
}

/** What the gateway knows when it calls: the plan that the account was on when last seen, and the windows of allowances and budgets. */
export interface CallContext {
  readonly planName: string
  /** Undefined when the plan is no longer configured, and there is no default one. */
  readonly plan: Plan | undefined
  readonly windows: string
}

type Answered<Script extends 'admit' | 'extend'> = Reply<Exclude<LedgerWords[Script], AskedAgain>>

/** A hold in slices takes at most one of so many equal parts of what is available, or the least that it needs if that is more. The rest is left to the account's other streams. */
const shares = 8

/** One admission: what each call of admit.lua is asked, how its reply is read, and the hold of what it has granted. */
export function admitCall(request: AdmitRequest) {
  const { ref, hmac, scope, holdId, amount, min, isSliced, isShadow = false } = request
  const { promptTokens, outputTokens, leastOutputTokens = outputTokens } = request
  const tokens = wholeTokens(promptTokens) + wholeTokens(outputTokens)
  const fewest = wholeTokens(promptTokens) + wholeTokens(leastOutputTokens)
  const model = encodeURIComponent(request.model)
  const meta = metaText(request)
  const tail = `${model} ${meta}`
  const sizes = `${holdId} ${wholeAmount(amount)} ${wholeAmount(min)} ${tokens} ${fewest} ${isSliced ? shares : 1}`
  return {
    script: 'admit' as const,
    words(context: CallContext): readonly string[] {
      const allowed = planWords(context, request.model)
      return [scope, sizes, allowed, request.model, tail, '', offerWords(context)]
    },
    read: (reply: Answered<'admit'>): AdmitAnswer => readAdmitAnswer(reply, request),
    holdOf(granted: AdmitGranted): Hold {
      const countedTokens = Math.min(tokens, granted.mostTokens)
      // No spreads: those of a request take 1 µs.
      const fields = {
        id: holdId,
        ref,
        hmac,
        accountId: granted.accountId,
        accountName: granted.accountName,
        keyId: granted.keyId,
        keyHasLimits: granted.keyHasLimits,
        plan: granted.plan,
        model,
        meta,
        limits: granted.limits,
        countedTokens,
        minute: Math.floor(granted.nowMs / minuteMs),
        isShadow,
        wouldRefuse: granted.wouldRefuse,
        available: granted.available,
      }
      return new Hold(fields, granted.amount)
    },
  }
}

/** The same for a lost hold that is opened again: its key and its limits were checked before, and it renews no allowance. */
export function reopenCall({ fields, amount }: Hold) {
  const { id, model, meta, keyId } = fields
  const fixed = ['', `${id} ${amount} 0 0 0 1`, '1 - - - ', '', `${model} ${meta}`, keyId]
  return {
    script: 'admit' as const,
    words: ({ windows }: CallContext) => [...fixed, offerWords({ plan: undefined, windows })],
    read: (reply: Answered<'admit'>): AdmitAnswer => readAdmitAnswer(reply, { min: 0 }),
  }
}

/** The scripts look for `"shadow":true`: so a hold stays one of shadow mode, whichever gateway settles or reaps it. */
function metaText({ meta, isShadow }: AdmitRequest): string {
  const { requestId, sessionId, messageId, price } = meta
  return JSON.stringify({
    request_id: requestId,
    session_id: sessionId,
    message_id: messageId,
    price: price && priceText(price),
    shadow: isShadow || undefined,
  })
}

/** Whether the plan allows the model, the plan's limits, and its name; `-` where there is no limit. */
export function planWords({ planName, plan }: Omit<CallContext, 'windows'>, model: string): string {
  const isAllowed = plan?.models.some((id) => id === '*' || id === model) ?? false
  const limit = (value: number | undefined) =>
    value !== undefined && Number.isSafeInteger(value) ? String(value) : '-'
  const { requestsPerMinute, tokensPerMinute, concurrency } = plan ?? {}
  const numbers = [requestsPerMinute, tokensPerMinute, concurrency].map(limit).join(' ')
  return `${isAllowed ? 1 : 0} ${numbers} ${planName}`
}

/** The plan's allowance, and the windows. */
export function offerWords({ plan, windows }: Omit<CallContext, 'planName'>): string {
  const { tokens = '-', every = '-', rollover = false } = plan?.allowance ?? {}
  return `${tokens} ${every} ${rollover ? 1 : 0} ${windows}`
}

export type AdmitAnswer = AdmitGranted | AdmitRefused

export type AdmitGranted = ReturnType<typeof granted>

export interface AdmitRefused {
  readonly word: Exclude<LedgerWords['admit'], AskedAgain | 'ok'>
  readonly owed: number
  /**
   * The request was refused because of what other holds take. Redis reads one connection after the other, so a write that
   * another gateway sent earlier (such as the settlement of the previous request) may be read after this admission. By the
   * time of a second call, Redis has read that write.
   */
  readonly mayPassNow: boolean
  readonly error: GatewayError
}

/** What a refusal has to know of its request, to say what to do next. */
type Refusable = Pick<AdmitRequest, 'min' | 'neverFits'>

function readAdmitAnswer(reply: Answered<'admit'>, request: Refusable): AdmitAnswer {
  const { word } = reply
  if (word === 'ok') return granted(reply)
  const error = refusalOf(word, reply, request)
  // Of an unknown key, the reply says nothing more.
  if (reply.values.length <= 2) return { word, error, owed: 0, mayPassNow: false }
  const isHeld = numberAt(reply, 13) > 0
  const mayPassNow =
    word === 'concurrency_limit_exceeded' ||
    (isHeld && (word === 'budget_exceeded' || word === 'insufficient_balance'))
  return { word, error, owed: numberAt(reply, 10), mayPassNow }
}

function granted(reply: Reply) {
  return {
    word: 'ok' as const,
    limits: limitsOf(reply),
    /** Balance tokens. */
    amount: numberAt(reply, 6),
    /** Of a hold that was opened again: what its reaping has charged. */
    chargedBefore: numberAt(reply, 7),
    accountId: textAt(reply, 8),
    accountName: textAt(reply, 16),
    plan: textAt(reply, 9),
    keyId: textAt(reply, 10),
    owed: numberAt(reply, 11),
    /** The lower one of the account's and the key's limit of tokens a minute: the request counts as no more than this. */
    mostTokens: mostAt(reply, 12),
    /** In shadow mode: the error with which it would have been refused. */
    wouldRefuse: excusable.find((code) => code === textAt(reply, 13)),
    /** Balance tokens that were available before this hold. */
    available: numberAt(reply, 14),
    keyHasLimits: numberAt(reply, 15) > 0,
    nowMs: reply.nowMs,
  }
}

function refusalOf(word: AdmitRefused['word'], reply: Reply, request: Refusable): GatewayError {
  if (word === 'released') return unavailable(new Error('The hold has ended before it was made'))
  if (reply.values.length <= 2) return new GatewayError(word)
  const known = { limits: limitsOf(reply), caller: callerOf(reply, 8) }
  switch (word) {
    case 'rate_limit_exceeded':
      return new GatewayError(word, { ...known, ...tooMany(whatIn(reply), known.limits) })
    case 'concurrency_limit_exceeded':
      return new GatewayError(word, { ...known, retryAfterMs: 1000 })
    case 'insufficient_balance':
      return new GatewayError(word, { ...known, ...shortage(reply, request) })
    case 'budget_exceeded':
      return new GatewayError(word, { ...known, ...overBudget(reply, request) })
    case 'invalid_parameter':
      return new GatewayError(word, { ...known, ...request.neverFits?.(mostAt(reply, 11)) })
    default:
      return new GatewayError(word, known)
  }
}

function tooMany(count: string, { requests, tokens }: LimitStates): ErrorDetails {
  const message = `The limit of ${count} a minute is reached. Wait as Retry-After says.`
  const reached = count === 'tokens' ? tokens : requests
  return { message, retryAfterMs: reached?.resetMs ?? minuteMs }
}

/** While the account owes something, nothing is available. */
function shortage(reply: Reply, { min }: Refusable): ErrorDetails {
  const [available, owed] = [numberAt(reply, 7), numberAt(reply, 10)]
  const message = `The account owes ${owed} tokens for earlier requests. Top it up by more than that.`
  return { shortage: { available, needed: wholeAmount(min), owed }, ...(owed > 0 && { message }) }
}

function overBudget(reply: Reply, { min }: Refusable): ErrorDetails {
  const [available, owed, renewsAtMs] = [
    numberAt(reply, 7),
    numberAt(reply, 10),
    numberAt(reply, 12),
  ]
  const at = new Date(renewsAtMs).toISOString().replace('.000Z', 'Z')
  const message = `The budget of the ${whatIn(reply)} does not cover this request. It is renewed at ${at}.`
  const renews_at = Math.floor(renewsAtMs / 1000)
  return { message, shortage: { available, needed: wholeAmount(min), owed, renews_at } }
}

/** What was reached: `requests` or `tokens` a minute; the budget of the `account` or of the `key`. */
const whatIn = (reply: Reply): string => textAt(reply, 6)

const minuteMs = 60_000

/** Positions 2 to 5 of a reply, granted or refused; -1 is no limit. */
function limitsOf(reply: Reply): LimitStates {
  const resetMs = minuteMs - (reply.nowMs % minuteMs)
  const count = (at: number): LimitState | undefined => {
    const limit = numberAt(reply, at)
    return limit < 0 ? undefined : { limit, remaining: numberAt(reply, at + 1), resetMs }
  }
  return { requests: count(2), tokens: count(4) }
}

function mostAt(reply: Reply, at: number): number {
  const most = numberAt(reply, at)
  return most < 0 ? Infinity : most
}

/** Undefined for an unknown key, whose reply names neither account nor key. */
export function callerOf({ values }: Reply, at: number): RefusedCaller | undefined {
  const [accountId, keyId] = values.slice(at, at + 2)
  return accountId && keyId ? { accountId: String(accountId), keyId: String(keyId) } : undefined
}

/** Balance tokens. */
export interface Extension {
  /** What the hold shall have in all. */
  readonly amount: number
  /** The fewest that are to be added, also when they are more than a share of what is available. */
  readonly least: number
}

export type ExtendAnswer =
  | { readonly word: 'ok'; readonly amount: number; readonly available: number }
  | { readonly word: 'gone' | 'account_suspended' }

export function extendCall(hold: Hold, { amount, least }: Extension) {
  const sizes = `${wholeAmount(amount)} ${wholeAmount(least)} ${shares}`
  return {
    script: 'extend' as const,
    words: ({ windows }: CallContext) => [progressWords(hold), sizes, windows],
    read(reply: Answered<'extend'>): ExtendAnswer {
      const { word } = reply
      if (word !== 'ok') return { word }
      return { word, amount: numberAt(reply, 2), available: numberAt(reply, 3) }
    },
  }
}
