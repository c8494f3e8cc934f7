// Both sides of identify.lua: what it is asked for a caller or for a look at an account, and its reply as what the account
// has, or as a refusal.

import { parseBudget } from '../budget.ts'
import type { RefusedCaller } from '../errors.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import type { Reply } from '../redis/scripts.ts'
import { callerOf, offerWords } from './admit.ts'
import type { CallContext, IdentifyRequest } from './admit.ts'
import { parseAllowance } from './allowances.ts'
import type { AskedAgain, LedgerWords } from './library.ts'

export type IdentifyAnswer =
  { readonly word: 'ok'; readonly identity: AccountIdentity } | IdentifyRefused

export type AccountIdentity = ReturnType<typeof toIdentity>

export interface IdentifyRefused {
  readonly word: Exclude<LedgerWords['identify'], AskedAgain | 'ok'>
  readonly caller: RefusedCaller | undefined
}

/** A caller's key is checked. A look checks no key, and the allowance is brought up to date first. */
export function identifyCall({ scope }: Pick<IdentifyRequest, 'scope'>, isLook: boolean) {
  return {
    script: 'identify' as const,
    mayGoOn: isLook,
    words: (context: CallContext) =>
      isLook ? [scope, context.planName, offerWords(context)] : [scope, '', ''],
    read(reply: Reply<Exclude<LedgerWords['identify'], AskedAgain>>): IdentifyAnswer {
      const { word } = reply
      if (word !== 'ok') return { word, caller: callerOf(reply, 2) }
      return { word, identity: toIdentity(reply) }
    },
  }
}

function toIdentity(reply: Reply) {
  const limit = numberAt(reply, 11)
  return {
    accountId: textAt(reply, 2),
    accountName: textAt(reply, 3),
    plan: textAt(reply, 4),
    keyId: textAt(reply, 5),
    /** The models that the key may use; `*` allows all. */
    models: textAt(reply, 6).split(' '),
    granted: numberAt(reply, 7),
    spent: numberAt(reply, 8),
    reserved: numberAt(reply, 9),
    owed: numberAt(reply, 10),
    /** The key's own limit. */
    tokensPerMinute: limit < 0 ? undefined : limit,
    allowance: parseAllowance(textAt(reply, 12)),
    budget: parseBudget(textAt(reply, 13), textAt(reply, 14), reply.nowMs),
    /** Read by `look` alone. */
    keyBudget: parseBudget(textAt(reply, 15), textAt(reply, 16), reply.nowMs),
    nowMs: reply.nowMs,
  }
}
