// Calls the two scripts that a request waits for, identify and admit. A script is called again when it needs the limits
// of another plan, or must reap more holds first. A script's refusal is thrown as the error of its code; any unclear
// reply is thrown as ledger_unavailable.

import type { Plan } from '../config/config.ts'
import { GatewayError, errorTable } from '../errors.ts'
import type { ErrorCode, ErrorDetails, RefusedCaller } from '../errors.ts'
import type { Headers } from '../http/headers.ts'
import { limitHeaders } from '../http/limit-headers.ts'
import { keys } from '../redis/redis.ts'
import { Hold } from './hold.ts'
import type { HoldFields } from './hold.ts'
import { amount, tokens } from './leases.ts'
import { limitError, limitsOf, planArgument } from './limits.ts'
import { createPlanGuesses } from './plan-guesses.ts'
import { numberAt, textAt, unavailable } from '../redis/scripts.ts'
import { accountKeys } from './library.ts'
import type { LedgerScript, LedgerScripts } from './library.ts'
import type { Reply } from '../redis/scripts.ts'

export interface IdentifyRequest {
  readonly ref: string
  readonly hmac: string
  /** '' requires no scope. */
  readonly scope: string
}

export interface AccountIdentity {
  readonly accountId: string
  readonly accountName: string
  readonly plan: string
  readonly keyId: string
  /** The models that the key may use; `*` allows all. */
  readonly models: readonly string[]
  /** The key's own limit. */
  readonly tokensPerMinute: number | undefined
  readonly granted: number
  readonly spent: number
  readonly reserved: number
  readonly owed: number
  readonly nowMs: number
}

export interface AdmitRequest extends IdentifyRequest {
  /** A UUIDv7 as 32 hex digits, new for each request. */
  readonly holdId: string
  /** Balance tokens. */
  readonly want: number
  /** Below this the request is refused. */
  readonly min: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** The fewest output tokens that suffice when the limit of tokens a minute is lower than what is wanted. Default: `outputTokens`. */
  readonly leastOutputTokens?: number
  /** What the refusal says when even the fewest tokens exceed that limit. */
  neverFits?(limit: number): Pick<ErrorDetails, 'param' | 'message'>
  /** Model id as configured. */
  readonly model: string
  readonly meta: HoldMeta
}

/** What a transaction says of its request. */
export interface HoldMeta {
  readonly requestId: string
  readonly sessionId?: string
  readonly messageId?: string
}

export interface AdmissionOptions {
  readonly scripts: LedgerScripts
  readonly leaseMs: number
  readonly plans: () => ReadonlyMap<string, Plan>
  readonly onReaped: (count: number) => void
  /** A reply said that the account owes something. */
  readonly onOwing: (ref: string) => void
}

interface Question {
  readonly script: LedgerScript
  readonly ref: string
  readonly hmac: string
  /** The script's ARGV after the first. */
  readonly args: () => readonly string[]
}

/** Each round that ends in `again` has reaped 100 holds. */
const maxRounds = 120

export class Admission {
  readonly #options: AdmissionOptions
  readonly #guesses = createPlanGuesses()

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  /** The plan that the account was on when last seen. */
  planOf(ref: string): Plan | undefined {
    const plans = this.#options.plans()
    return plans.get(this.#guesses.get(ref)) ?? plans.get('default')
  }

  identify(request: IdentifyRequest): Promise<AccountIdentity> {
    return this.#identify(request, '')
  }

  /** Reaps expired holds, then returns what the account has. For operators: no key is checked. */
  look(ref: string): Promise<AccountIdentity> {
    return this.#identify({ ref, hmac: '-', scope: '' }, '1')
  }

  async admit(request: AdmitRequest): Promise<Hold> {
    const { ref, hmac, scope, holdId, want, min, model } = request
    const { promptTokens, outputTokens, leastOutputTokens = outputTokens } = request
    const wanted = tokens(promptTokens) + tokens(outputTokens)
    const fewest = tokens(promptTokens) + tokens(leastOutputTokens)
    const note = { model: encodeURIComponent(model), meta: metaText(request.meta) }
    const sizes = `${holdId} ${amount(want)} ${amount(min)} ${wanted} ${fewest}`
    const tail = `${note.model} ${note.meta}`
    const args = () => [scope, sizes, this.#planFor(ref, model), model, tail, '']
    const question = { script: 'admit', ref, hmac, args } as const
    const first = await this.#ask(question)
    const reply = mayBeLate(first) ? await this.#ask(question) : first
    if (reply.word === 'rate_limit_exceeded' || reply.word === 'concurrency_limit_exceeded') {
      throw limitError(reply.word, reply, callerOf(reply, 9))
    }
    this.#noteOwing(ref, reply, reply.word === 'ok' ? 13 : 11)
    if (reply.word === 'insufficient_balance') throw shortage(reply, amount(min))
    if (reply.word !== 'ok') {
      const isTooLarge = reply.word === 'invalid_parameter'
      const details = isTooLarge ? request.neverFits?.(numberAt(reply, 12)) : {}
      const headers = limitHeadersOf(reply)
      throw refusal(reply, { headers, caller: callerOf(reply, 9), ...details })
    }
    const most = numberAt(reply, 14)
    const countedTokens = most < 0 ? wanted : Math.min(wanted, most)
    return toHold({ id: holdId, ref, hmac, ...note, countedTokens }, reply)
  }

  /** Resolves with false when the hold cannot be opened again. */
  async openAgain(hold: Hold): Promise<boolean> {
    const { id, ref, hmac, model, meta, keyId } = hold.fields
    const sizes = `${id} ${hold.amount} 0 0 0`
    const args = () => ['', sizes, '1 - - - ', '', `${model} ${meta}`, keyId]
    const reply = await this.#ask({ script: 'admit', ref, hmac, args })
    if (reply.word === 'account_suspended') hold.stop('account_suspended')
    if (reply.word !== 'ok') return false
    hold.reopened(numberAt(reply, 7) + numberAt(reply, 8))
    return true
  }

  async #identify(
    { ref, hmac, scope }: IdentifyRequest,
    operator: '1' | '',
  ): Promise<AccountIdentity> {
    const args = () => [scope, operator]
    const reply = await this.#ask({ script: 'identify', ref, hmac, args })
    if (reply.word !== 'ok') throw refusal(reply, { caller: callerOf(reply, 3) })
    const identity = toIdentity(reply)
    this.#noteOwing(ref, reply, 11)
    this.#guesses.set(ref, identity.plan)
    return identity
  }

  async #ask({ script, ref, hmac, args }: Question): Promise<Reply> {
    const { scripts, leaseMs, onReaped } = this.#options
    const names = [...accountKeys(ref), keys.key(ref, hmac)]
    for (let round = 0; round < maxRounds; round++) {
      const reply = await scripts.run(script, names, [`${leaseMs}`, ...args()])
      if (typeof reply.values[2] === 'number' && reply.values[2] > 0) onReaped(reply.values[2])
      if (reply.word === 'plan') this.#guesses.set(ref, textAt(reply, 2))
      else if (reply.word !== 'again') return reply
    }
    throw unavailable(new Error('A script asked for more too often'))
  }

  /** The reply for an unknown key has no such value. */
  #noteOwing(ref: string, { values }: Reply, at: number): void {
    if (values.length > at && values[at] !== '0') this.#options.onOwing(ref)
  }

  #planFor(ref: string, model: string): string {
    return planArgument(this.#guesses.get(ref), this.planOf(ref), model)
  }
}

/**
 * Whether a request was refused because of what other holds take. Redis reads one connection after the other, so a
 * write that another gateway sent earlier (such as the settlement of the previous request) may be read after this
 * admission. By the time of a second call, Redis has read that write.
 */
function mayBeLate({ word, values }: Reply): boolean {
  return (
    word === 'concurrency_limit_exceeded' ||
    (word === 'insufficient_balance' && values[7] === 'held')
  )
}

/** Admit also reports the limits when it refuses, except for an unknown key. */
function limitHeadersOf(reply: Reply): Headers {
  return reply.values.length > 6 ? limitHeaders(limitsOf(reply)) : {}
}

/** Returns undefined for an unknown key, whose reply names neither account nor key. */
function callerOf({ values }: Reply, at: number): RefusedCaller | undefined {
  const [accountId, keyId] = values.slice(at, at + 2)
  return accountId && keyId ? { accountId: String(accountId), keyId: String(keyId) } : undefined
}

export function refusal({ word }: Reply, details: ErrorDetails = {}): GatewayError {
  if (Object.hasOwn(errorTable, word)) return new GatewayError(word as ErrorCode, details)
  return unavailable(new Error(`A script answered ${word}`))
}

/** Admit's refusal for lack of money. While the account owes something, nothing is available. */
function shortage(reply: Reply, needed: number): GatewayError {
  const [available, owed] = [numberAt(reply, 8), numberAt(reply, 11)]
  const message = `The account owes ${owed} tokens for earlier requests. Top it up by more than that.`
  return new GatewayError('insufficient_balance', {
    headers: limitHeadersOf(reply),
    caller: callerOf(reply, 9),
    shortage: { available, needed, owed },
    ...(owed > 0 && { message }),
  })
}

function toIdentity(reply: Reply): AccountIdentity {
  const limit = numberAt(reply, 13)
  return {
    accountId: textAt(reply, 3),
    accountName: textAt(reply, 4),
    plan: textAt(reply, 5),
    keyId: textAt(reply, 6),
    models: textAt(reply, 7).split(' '),
    granted: numberAt(reply, 8),
    spent: numberAt(reply, 9),
    reserved: numberAt(reply, 10),
    owed: numberAt(reply, 11),
    tokensPerMinute: limit < 0 ? undefined : limit,
    nowMs: reply.nowMs,
  }
}

function metaText({ requestId, sessionId, messageId }: HoldMeta): string {
  return JSON.stringify({ request_id: requestId, session_id: sessionId, message_id: messageId })
}

const minuteMs = 60_000

type NewHold = Pick<HoldFields, 'id' | 'ref' | 'hmac' | 'model' | 'meta' | 'countedTokens'>

function toHold(asked: NewHold, reply: Reply): Hold {
  const fields = {
    ...asked,
    accountId: textAt(reply, 9),
    accountName: textAt(reply, 10),
    plan: textAt(reply, 11),
    keyId: textAt(reply, 12),
    limits: limitsOf(reply),
    minute: Math.floor(reply.nowMs / minuteMs),
  }
  return new Hold(fields, numberAt(reply, 7))
}
