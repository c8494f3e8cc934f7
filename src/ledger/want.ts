// What a request wants, what it needs of its account for that, and what its hold lets it use. The scripts decide whether it
// gets the hold; `neverFits` words the refusal of one that is too large for the limit of tokens a minute.

import type { Model } from '../config/config.ts'
import type { Effort } from '../tokens/count-pieces.ts'
import type { AdmitRequest } from './admit.ts'
import type { Hold } from './hold.ts'
import { charge, outputAfforded } from './price.ts'

/** The estimate before a generation (docs/money.md#before-the-hold). Counts are tokens of the model. */
export interface Want {
  readonly model: Model
  readonly promptTokens: number
  /** Counts the prompt by the tokenizer, thoroughly if no effort is named. Called only after the request was sent to a backend; the count is used only while that backend has reported no prompt. */
  countPrompt(effort?: Effort): Promise<number>
  /** The most tokens that the prompt can have: a backend that reports more is not believed. Read only after the backend was asked. */
  readonly mostPrompt: number
  /** The most that each choice may generate; 0 when the endpoint generates nothing. */
  readonly outputPerChoice: number
  /** How many choices are generated: prompts × n, or prompts × best_of if that is more; 0 when the endpoint generates nothing. */
  readonly choices: number
  /** The meter sees all output as it comes, so it can be held in slices. */
  readonly isSeenAsItComes: boolean
  /** Names of fields of the request's body, for refusals. */
  readonly fields: {
    readonly prompt: string
    /** The field that bounds the output; undefined when the client sent none. */
    readonly bound: string | undefined
  }
  readonly sessionId?: string
  readonly messageId?: string
}

export interface SizesOptions {
  /** An admission gives each choice at least so many output tokens. */
  readonly minOutputTokens: number
  /** Output tokens of a slice; undefined where holds are not made in slices. */
  readonly slice: number | undefined
}

/** What admission is asked for: balance tokens, and tokens that the limit of tokens a minute counts. That limit lowers the output only when the client has set no bound; a request whose bound is too high for it is refused. */
export function sizesOf(want: Want, { minOutputTokens, slice }: SizesOptions) {
  const { model, promptTokens, outputPerChoice, choices, fields, isSeenAsItComes } = want
  const isSliced = slice !== undefined && isSeenAsItComes
  const outputTokens = outputPerChoice * choices
  const least = Math.min(outputTokens, minOutputTokens * choices)
  const held = isSliced ? Math.min(outputTokens, Math.max(least, slice)) : outputTokens
  const chargeFor = (completion: number) =>
    charge(model.price, { prompt: promptTokens, cached: 0, completion })
  return {
    amount: chargeFor(held),
    isSliced,
    min: chargeFor(least),
    promptTokens,
    outputTokens,
    leastOutputTokens: fields.bound === undefined ? least : outputTokens,
    neverFits: (limit: number) => tooMuch(want, limit),
  } satisfies Partial<AdmitRequest>
}

/** The most that each choice may generate: the least of what was wanted, what the amount pays for, and what the limit of tokens a minute has counted. The amount of a hold in slices is no bound, because it grows; in shadow mode, only what was wanted is one. */
export function grantedBy(hold: Hold, want: Want, { isSliced }: { isSliced: boolean }): number {
  const { model, promptTokens, outputPerChoice, choices } = want
  if (hold.fields.isShadow) return outputPerChoice
  const paying = { amount: hold.amount, promptTokens, choices }
  const afforded = isSliced ? Infinity : outputAfforded(model.price, paying)
  const counted = (hold.fields.countedTokens - promptTokens) / Math.max(1, choices)
  return Math.min(outputPerChoice, afforded, Math.floor(counted))
}

/** What to change in a request that may use more tokens than `limit` a minute. */
function tooMuch({ promptTokens, choices, fields }: Want, limit: number) {
  const { prompt, bound } = fields
  const most = Math.floor((limit - promptTokens) / Math.max(1, choices))
  const refusal = `The request may use more tokens than the limit of ${limit} a minute.`
  if (bound !== undefined && most >= 1) {
    return { param: bound, message: `${refusal} Lower ${bound} to ${most} or less.` }
  }
  if (choices > 1 && promptTokens < limit) {
    // A request with several prompts has as many choices.
    const param = prompt === 'messages' ? 'n' : prompt
    return { param, message: `${refusal} Ask for fewer than ${choices} choices.` }
  }
  const counts = `"${prompt}" counts as ${promptTokens} tokens. Shorten it.`
  return { param: prompt, message: `${refusal} ${counts}` }
}
