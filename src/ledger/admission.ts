// Calls the scripts that a request waits for, while the gate is open: identify and admit before it begins, extend
// before a stream in slices has used up its hold. A script is called again when it needs the limits of another plan or the
// windows of another day, and when holds had to be reaped or the allowance renewed first, by scripts of their own. A script's
// refusal is thrown as the error of its code; any unclear reply is thrown as ledger_unavailable. admit.ts and identify.ts
// say what the scripts are asked, and read their replies.

import type { Plan } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import { accountKeys, keys } from '../redis/keys.ts'
import { isUnclear, textAt, unavailable, wasRefused } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { admitCall, extendCall, offerWords, reopenCall } from './admit.ts'
import type { AdmitRequest, CallContext, Extension, IdentifyRequest } from './admit.ts'
import { identifyCounted } from './caller.ts'
import type { CountedIdentity } from './caller.ts'
import type { RedisClock } from './clock.ts'
import type { Gate } from './gate.ts'
import type { Hold } from './hold.ts'
import { identifyCall } from './identify.ts'
import type { AccountIdentity } from './identify.ts'
import { askingAgain, maxRounds, tooManyRounds } from './library.ts'
import type { AskedAgain, LedgerScripts, LedgerWords } from './library.ts'
import { reap } from './reaping.ts'
import type { Spool } from './spool.ts'
import type { Windows } from './windows.ts'

export interface AdmissionOptions {
  readonly scripts: LedgerScripts
  readonly clock: RedisClock
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

type AdmissionScript = 'identify' | 'admit' | 'extend'

/** The words of a script that do not ask for one more call. */
type AnswerOf<Script extends AdmissionScript> = Exclude<LedgerWords[Script], AskedAgain>

interface ScriptCall<Script extends AdmissionScript, Answer> {
  readonly script: Script
  /** The script's ARGV after the first, made anew for each call. */
  words(context: CallContext): readonly string[]
  read(reply: Reply<AnswerOf<Script>>): Answer
  /** Whether the call goes on with the old allowance when Redis refuses to renew it: its memory may be full. */
  readonly mayGoOn?: boolean
}

type KeyOfCaller = Pick<IdentifyRequest, 'ref' | 'hmac'>

export class Admission {
  readonly #options: AdmissionOptions
  readonly #guesses = createPlanGuesses()

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  // Arrow functions, because the ledger has them as its own methods.

  /** The plan that the account was on when last seen, else the default one. */
  readonly planOf = (ref: string): Plan | undefined => this.#contextOf(ref).plan

  readonly identify = (request: IdentifyRequest): Promise<AccountIdentity> => {
    return this.#identify(request, false)
  }

  /** For a request that makes no hold: counts it as well, and reads no balance. */
  readonly identifyCounted = async (request: IdentifyRequest): Promise<CountedIdentity> => {
    this.#options.gate.pass()
    return this.#noted(request.ref, await identifyCounted(request, this.#options))
  }

  /**
   * Reaps expired holds and brings the allowance up to date, then returns what the account has. While Redis refuses to write,
   * the allowance stays as it is. Checks no key. `hmac` names a key whose budget is to be read as well.
   */
  look(ref: string, hmac = '-'): Promise<AccountIdentity> {
    return this.#identify({ ref, hmac, scope: '' }, true)
  }

  /** Makes a hold, or throws the refusal. Its first call is sent in this tick: a script that is sent after it finds the hold, unless one more call was needed. */
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
    const call = admitCall(request)
    const first = await this.#ask(request, call)
    // The previous request of this client may have been settled meanwhile.
    const mayPassNow = first.word !== 'ok' && first.mayPassNow
    const answer = mayPassNow ? await this.#ask(request, call) : first
    if (answer.owed > 0) this.#options.onOwing(request.ref)
    if (answer.word !== 'ok') throw answer.error
    return call.holdOf(answer)
  }

  /** Resolves with false when the hold cannot be opened again. Passes no gate: the gate stays shut until lost holds are open again. */
  async openAgain(hold: Hold): Promise<boolean> {
    const answer = await this.#ask(hold.fields, reopenCall(hold))
    if (answer.word === 'account_suspended') hold.stop('account_suspended')
    if (answer.word !== 'ok') return false
    hold.reopened(answer.amount + answer.chargedBefore)
    return true
  }

  /** Makes a hold larger. Resolves with whether more is available; rejects with ledger_unavailable. A hold that Redis does not know is opened again, no larger than it was; if that fails, its work is stopped. */
  readonly extend = async (hold: Hold, extension: Extension): Promise<boolean> => {
    this.#options.gate.pass()
    const answer = await this.#ask(hold.fields, extendCall(hold, extension))
    if (answer.word === 'ok') hold.extended(answer)
    else if (answer.word === 'account_suspended') hold.stop(answer.word)
    else if (!(await this.openAgain(hold))) hold.stop('lost')
    // A hold that was opened again has not grown, so its stream may ask once more. What a stopped one is told does not matter.
    return answer.word !== 'ok' || answer.available > 0
  }

  async #identify(caller: IdentifyRequest, isLook: boolean): Promise<AccountIdentity> {
    this.#options.gate.pass()
    const answer = await this.#ask(caller, identifyCall(caller, isLook))
    if (answer.word !== 'ok') throw new GatewayError(answer.word, { caller: answer.caller })
    return this.#noted(caller.ref, answer.identity)
  }

  #noted<Found extends Pick<AccountIdentity, 'owed' | 'plan'>>(ref: string, found: Found): Found {
    if (found.owed > 0) this.#options.onOwing(ref)
    this.#guesses.set(ref, found.plan)
    return found
  }

  /** Calls the script until its reply is an answer. Sends in this tick. */
  async #ask<Script extends AdmissionScript, Answer>(
    { ref, hmac }: KeyOfCaller,
    call: ScriptCall<Script, Answer>,
  ): Promise<Answer> {
    const { scripts, leaseMs } = this.#options
    const names = [...accountKeys(ref), keys.key(ref, hmac)]
    let isReaped = false
    let isRenewed = false
    for (let round = 0; round < maxRounds; round++) {
      const state = `${leaseMs} ${isReaped ? 1 : 0} ${isRenewed ? 1 : 0}`
      const args = [state, ...call.words(this.#contextOf(ref))]
      const reply = await scripts.run(call.script, names, args)
      if (isAnswer<Script>(reply)) return call.read(reply)
      if (reply.word === 'reap') {
        await reap(this.#options, ref)
        isReaped = true
      } else if (reply.word === 'renew') {
        isRenewed = await this.#renew(ref, call)
      } else {
        this.#learn(ref, reply)
        // If the allowance was renewed, it was that of another plan or window.
        isRenewed = false
      }
    }
    throw tooManyRounds()
  }

  /** Resolves with true when the script need not ask for a renewal again; with false when plan or windows were wrong. */
  async #renew(ref: string, { mayGoOn }: { readonly mayGoOn?: boolean }): Promise<boolean> {
    const context = this.#contextOf(ref)
    const args = [context.planName, offerWords(context)]
    try {
      const reply = await this.#options.scripts.run('renew', accountKeys(ref), args)
      if (reply.word === 'ok') return true
      this.#learn(ref, reply)
      return false
    } catch (error) {
      if (mayGoOn && wasRefused(error)) return true
      throw error
    }
  }

  /** What the next call has to say otherwise: the plan, or the windows. */
  #learn(ref: string, reply: Reply): void {
    if (reply.word === 'plan') this.#guesses.set(ref, textAt(reply, 2))
    else this.#options.windows.learn(reply.nowMs)
  }

  #contextOf(ref: string): CallContext {
    const { plans, windows } = this.#options
    const planName = this.#guesses.get(ref)
    const named = plans()
    const plan = named.get(planName) ?? named.get('default')
    return { planName, plan, windows: windows.text }
  }
}

function isAnswer<Script extends AdmissionScript>(
  reply: Reply<LedgerWords[Script]>,
): reply is Reply<AnswerOf<Script>> {
  return !askingAgain.some((word) => word === reply.word)
}

/** Accounts with a guess. Beyond this number, the guess that was unused for longest is dropped. */
const maxGuesses = 10_000

/** Which plan an account was on when last seen: admit.lua needs the plan's limits in the same call that reads the plan. A wrong guess costs one more call. */
export function createPlanGuesses() {
  const plans = new Map<string, string>()
  const set = (ref: string, plan: string) => {
    plans.delete(ref)
    plans.set(ref, plan)
    if (plans.size > maxGuesses) plans.delete(plans.keys().next().value ?? '')
  }
  return {
    get(ref: string): string {
      const plan = plans.get(ref)
      if (plan === undefined) return 'default'
      set(ref, plan)
      return plan
    },
    set,
  }
}
