// Both sides of identify.lua: what it is asked for a caller or for the operator, and its reply as what the account has, or
// as a refusal.

import { parseBudget } from '../budget.ts'
import type { RefusedCaller } from '../errors.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { callerOf, offerWords } from './admit.ts'
import type { AskedAgain, CallContext, IdentifyRequest } from './admit.ts'
import { parseAllowance } from './allowances.ts'
import type { LedgerWords } from './library.ts'

export type IdentifyAnswer =
  { readonly word: 'ok'; readonly identity: AccountIdentity } | IdentifyRefused

export type AccountIdentity = ReturnType<typeof toIdentity>

export interface IdentifyRefused {
  readonly word: Exclude<LedgerWords['identify'], AskedAgain | 'ok'>
  readonly caller: RefusedCaller | undefined
}

/** A caller's key is checked. For the operator no key is checked, and an allowance whose window has ended is renewed. */
export function identifyCall({ scope }: Pick<IdentifyRequest, 'scope'>, isOperator: boolean) {
  return {
    script: 'identify' as const,
    words: (context: CallContext) =>
      isOperator ? [scope, `=${context.planName}`, offerWords(context)] : [scope, '', ''],
    read(reply: Reply<Exclude<LedgerWords['identify'], AskedAgain>>): IdentifyAnswer {
      const { word } = reply
      if (word !== 'ok') return { word, caller: callerOf(reply, 3) }
      return { word, identity: toIdentity(reply) }
    },
  }
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
