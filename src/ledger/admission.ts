// Calls the scripts that a request waits for, while the gate is open: identify and admit before it begins, extend when a
// stream in slices has used most of its hold. A script is called again when it needs the limits of another plan, or must
// reap more holds first. A script's refusal is thrown as the error of its code; any unclear reply is thrown as
// ledger_unavailable.

import type { Plan, Price } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import type { ErrorDetails } from '../errors.ts'
import { accountKeys, keys } from '../redis/keys.ts'
import { allowanceWords } from './allowances.ts'
import type { Gate } from './gate.ts'
import type { Hold } from './hold.ts'
import { progressWords } from './leases.ts'
import { priceText, wholeAmount, wholeTokens } from './price.ts'
import { isUnclear, unavailable } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import type { LedgerScripts, LedgerWords } from './library.ts'
import { createPlanGuesses } from './plan-guesses.ts'
import { readAdmitted, readExtended, readIdentified, toHold } from './replies.ts'
import { refusalOf } from './refusal.ts'
import type { AccountIdentity, Admitted, Asked } from './replies.ts'
import type { Spool } from './spool.ts'
import type { Windows } from './windows.ts'

export interface IdentifyRequest {
  readonly ref: string
  readonly hmac: string
  /** '' requires no scope. */
  readonly scope: string
}

export interface AdmitRequest extends IdentifyRequest {
  /** A UUIDv7 as 32 hex digits, new for each request. */
  readonly holdId: string
  /** Balance tokens. */
  readonly want: number
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
  /** By which all of it is charged. */
  readonly price?: Price
  readonly sessionId?: string
  readonly messageId?: string
}

export interface AdmissionOptions {
  readonly scripts: LedgerScripts
  readonly leaseMs: number
  readonly plans: () => ReadonlyMap<string, Plan>
  /** Where the days, weeks and months of allowances and budgets begin. */
  readonly windows: Pick<Windows, 'text' | 'learn'>
  readonly gate: Pick<Gate, 'pass'>
  readonly spool: Pick<Spool, 'isFull'>
  readonly onAdmitted: (hold: Hold) => void
  /** No reply came: the hold may have been made. */
  readonly onUnclear: (request: AdmitRequest) => void
  readonly onReaped: (count: number) => void
  /** A reply said that the account owes something. */
  readonly onOwing: (ref: string) => void
}

/** Balance tokens. */
export interface Extension {
  /** What the hold shall have in all. */
  readonly amount: number
  /** The fewest that are to be added, also when they are more than a share of what is available. */
  readonly least: number
}

type AdmissionScript = 'identify' | 'admit' | 'extend'

interface Question<Script extends AdmissionScript, Answer> {
  readonly script: Script
  readonly keys: readonly string[]
  /** The script's ARGV after the first, made anew for each call. */
  readonly args: () => readonly string[]
  readonly read: (reply: Reply<LedgerWords[Script]>) => Asked<Answer>
  readonly onPlan?: (plan: string) => void
}

/** A hold in slices leaves the others of these equal parts of what is available to the account's next streams. */
const shares = 8

/** Each round that ends in `again` has reaped 100 holds. */
const maxRounds = 120

export class Admission {
  readonly #options: AdmissionOptions
  readonly #guesses = createPlanGuesses()

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  // Arrow functions, because the ledger has them as its own methods.

  /** The plan that the account was on when last seen, else the default one. */
  readonly planOf = (ref: string): Plan | undefined => {
    const plans = this.#options.plans()
    return plans.get(this.#guesses.get(ref)) ?? plans.get('default')
  }

  readonly identify = (request: IdentifyRequest): Promise<AccountIdentity> => {
    return this.#identify(request, false)
  }

  /**
   * Reaps expired holds and renews the allowance, then returns what the account has. For operators: no key is checked.
   * `hmac`: of the key whose budget is wanted, too.
   */
  look(ref: string, hmac = '-'): Promise<AccountIdentity> {
    return this.#identify({ ref, hmac, scope: '' }, true)
  }

  /** Makes a hold, or throws the refusal. */
  readonly admit = async (request: AdmitRequest): Promise<Hold> => {
    const { gate, spool, onAdmitted, onUnclear } = this.#options
    gate.pass()
    if (spool.isFull) throw unavailable(new Error('too many ledger entries wait for the disk'))
    try {
      const hold = await this.#hold(request)
      onAdmitted(hold)
      return hold
    } catch (error) {
      if (isUnclear(error)) onUnclear(request)
      throw error
    }
  }

  async #hold(request: AdmitRequest): Promise<Hold> {
    const { ref, hmac, scope, holdId, want, min, model, isSliced, isShadow = false } = request
    const { promptTokens, outputTokens, leastOutputTokens = outputTokens } = request
    const wanted = wholeTokens(promptTokens) + wholeTokens(outputTokens)
    const fewest = wholeTokens(promptTokens) + wholeTokens(leastOutputTokens)
    const note = { model: encodeURIComponent(model), meta: metaText(request.meta, isShadow) }
    const sizes = `${holdId} ${wholeAmount(want)} ${wholeAmount(min)} ${wanted} ${fewest} ${isSliced ? shares : 1}`
    const tail = `${note.model} ${note.meta}`
    const args = () => [scope, sizes, this.#planFor(ref, model), model, tail, '', this.#offer(ref)]
    const names = keysOf(request)
    const onPlan = (plan: string) => this.#guesses.set(ref, plan)
    const question = { script: 'admit', keys: names, args, read: readAdmitted, onPlan } as const
    const first = await this.#ask(question)
    const answer = mayBeLate(first) ? await this.#ask(question) : first
    if (answer.owed > 0) this.#options.onOwing(ref)
    if (answer.word !== 'ok') throw refusalOf(answer, request)
    const countedTokens = Math.min(wanted, answer.mostTokens)
    return toHold({ id: holdId, ref, hmac, ...note, countedTokens, isShadow }, answer)
  }

  /** Resolves with false when the hold cannot be opened again. Passes no gate: the gate stays shut until lost holds are open again. */
  async openAgain(hold: Hold): Promise<boolean> {
    const { id, model, meta, keyId } = hold.fields
    const sizes = `${id} ${hold.amount} 0 0 0 1`
    const { windows } = this.#options
    const tail = `${model} ${meta}`
    const args = () => ['', sizes, noLimits, '', tail, keyId, `${noAllowance} ${windows.text}`]
    const names = keysOf(hold.fields)
    const answer = await this.#ask({ script: 'admit', keys: names, args, read: readAdmitted })
    if (answer.word === 'account_suspended') hold.stop('account_suspended')
    if (answer.word !== 'ok') return false
    hold.reopened(answer.amount + answer.chargedBefore)
    return true
  }

  /** Makes a hold larger. Resolves with whether more is available; rejects with ledger_unavailable. A hold that Redis does not know is opened again as it was, or its work is stopped. */
  readonly extend = async (hold: Hold, { amount, least }: Extension): Promise<boolean> => {
    this.#options.gate.pass()
    const names = keysOf(hold.fields)
    const args = () => [
      progressWords(hold),
      `${wholeAmount(amount)} ${wholeAmount(least)} ${shares}`,
      this.#options.windows.text,
    ]
    const answer = await this.#ask({ script: 'extend', keys: names, args, read: readExtended })
    if (answer.word === 'ok') hold.extended(answer.amount)
    else if (answer.word === 'account_suspended') hold.stop(answer.word)
    else if (!(await this.openAgain(hold))) hold.stop('lost')
    return answer.word !== 'ok' || answer.available > 0
  }

  async #identify(caller: IdentifyRequest, isOperator: boolean): Promise<AccountIdentity> {
    this.#options.gate.pass()
    const { ref, scope } = caller
    const args = () =>
      isOperator ? [scope, `=${this.#guesses.get(ref)}`, this.#offer(ref)] : [scope, '', '']
    const names = keysOf(caller)
    const onPlan = (plan: string) => this.#guesses.set(ref, plan)
    const question = {
      script: 'identify',
      keys: names,
      args,
      read: readIdentified,
      onPlan,
    } as const
    const answer = await this.#ask(question)
    if (answer.word !== 'ok') throw new GatewayError(answer.word, { caller: answer.caller })
    const { identity } = answer
    if (identity.owed > 0) this.#options.onOwing(ref)
    this.#guesses.set(ref, identity.plan)
    return identity
  }

  async #ask<Script extends AdmissionScript, Answer>({
    script,
    keys: names,
    args,
    read,
    onPlan,
  }: Question<Script, Answer>): Promise<Answer> {
    const { scripts, leaseMs, windows, onReaped } = this.#options
    for (let round = 0; round < maxRounds; round++) {
      const asked = read(await scripts.run(script, names, [`${leaseMs}`, ...args()]))
      if (asked.reaped > 0) onReaped(asked.reaped)
      if (asked.is === 'answer') return asked.answer
      if (asked.is === 'plan') onPlan?.(asked.plan)
      if (asked.is === 'clock') windows.learn(asked.nowMs)
    }
    throw unavailable(new Error('A script asked for more too often'))
  }

  #planFor(ref: string, model: string): string {
    return planArgument(this.#guesses.get(ref), this.planOf(ref), model)
  }

  #offer(ref: string): string {
    return `${allowanceWords(this.planOf(ref))} ${this.#options.windows.text}`
  }
}

const keysOf = ({ ref, hmac }: Pick<IdentifyRequest, 'ref' | 'hmac'>) => [
  ...accountKeys(ref),
  keys.key(ref, hmac),
]

/** ARGV 4 of admit for a hold that is opened again: its limits were checked before. */
const noLimits = '1 - - - '
/** In ARGV 8 of admit for such a hold, which renews no allowance. */
const noAllowance = allowanceWords(undefined)

/** ARGV 4 of admit; `-` where there is no limit. */
export function planArgument(name: string, plan: Plan | undefined, model: string): string {
  const isAllowed = plan?.models.some((id) => id === '*' || id === model) ?? false
  const limit = (value: number | undefined) =>
    value !== undefined && Number.isSafeInteger(value) ? String(value) : '-'
  const { requestsPerMinute, tokensPerMinute, concurrency } = plan ?? {}
  const numbers = [requestsPerMinute, tokensPerMinute, concurrency].map(limit).join(' ')
  return `${isAllowed ? 1 : 0} ${numbers} ${name}`
}

/**
 * Whether a request was refused because of what other holds take. Redis reads one connection after the other, so a
 * write that another gateway sent earlier (such as the settlement of the previous request) may be read after this
 * admission. By the time of a second call, Redis has read that write.
 */
function mayBeLate(answer: Admitted): boolean {
  const { word } = answer
  return (
    word === 'concurrency_limit_exceeded' ||
    (word === 'budget_exceeded' && answer.isHeld) ||
    (word === 'insufficient_balance' && answer.which === 'held')
  )
}

/** The scripts look for `"shadow":true`: so a hold stays one of shadow mode, whichever gateway settles or reaps it. */
function metaText(meta: HoldMeta, isShadow: boolean): string {
  const { requestId, sessionId, messageId, price } = meta
  return JSON.stringify({
    request_id: requestId,
    session_id: sessionId,
    message_id: messageId,
    price: price && priceText(price),
    shadow: isShadow || undefined,
  })
}
