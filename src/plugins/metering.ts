// Makes a hold before a request and settles it after: turns what the request wants into balance tokens, and what it
// used into a charge (docs/money.md, promise 5). The script that makes the hold also counts the limits of plan and key.

import { z } from '../config/schema.ts'
import { GatewayError } from '../errors.ts'
import type { Exchange, Hooks, Outcome, Want } from '../exchange.ts'
import type { Gateway, Plugin } from '../plugin.ts'
import { limitHeaders } from '../http/headers.ts'
import type { Settlement } from '../ledger/orders.ts'
import { noProgress } from '../ledger/hold.ts'
import type { Hold, Progress } from '../ledger/hold.ts'
import { ledgerSettings } from '../ledger/open.ts'
import { charge, outputAfforded } from '../ledger/price.ts'
import { runawayAt } from '../backend/generated.ts'
import type { Meter, Used } from '../backend/usage.ts'
import { noTokens } from '../tokens/token-counts.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'

const schema = z.strictObject({
  ...ledgerSettings.shape,
  min_output_tokens: z
    .int()
    .min(1)
    .default(16)
    .describe('A request is refused when the balance affords fewer output tokens than this.'),
})

type MeteringConfig = z.infer<typeof schema>

export const metering: Plugin<MeteringConfig> = {
  name: 'metering',
  schema,
  setup: (gateway, config) => ({
    begin: (x) => (x.route.metered ? meter(gateway, x, config) : undefined),
  }),
}

function meter(gateway: Gateway, x: Exchange, config: MeteringConfig): Hooks {
  const { ledger } = gateway
  let hold: Hold | undefined
  return {
    async admit() {
      if (!x.caller) throw new GatewayError('missing_api_key')
      // No hold for an unknown model, or for a request that only reads on; but the key must be valid, so that a client
      // without one learns nothing about models.
      if (!x.want) {
        x.identity = await ledger.identify(x.caller)
        return
      }
      // A request has at most one hold, so one id finds the request and its hold.
      const holdId = x.id.slice('req_'.length)
      const { want } = x
      const { model, sessionId, messageId } = want
      const meta = { requestId: x.id, sessionId, messageId }
      const costs = admissionOf(want, config.min_output_tokens)
      hold = await ledger.admit({ ...x.caller, ...costs, holdId, model: model.id, meta })
      hold.onStop((reason) => x.stop?.(reason))
      hold.watch(() => progressOf(x, want))
      x.identity = hold.fields
      Object.assign(x.replyHeaders, limitHeaders(hold.fields.limits))
      x.granted = { holdId, amount: hold.amount, outputPerChoice: outputGranted(want, hold) }
    },
    done(outcome) {
      if (!hold || !x.want) return undefined
      const { want } = x
      const held = hold
      // Called at once when the usage is known, else when its tokens are counted.
      const settle = (used: Used | undefined) => {
        // The reply is not awaited, because the cost is known already.
        void ledger.settle(held, settlementOf(x, want, used, outcome))
        x.written = gateway.redis.written()
      }
      const giveUp = (error: unknown) => {
        // Settles what the last checkpoint would store, because an unsettled hold would be renewed for ever.
        void ledger.settle(held, held.progress)
        throw error
      }
      try {
        const used = usedBy(x, want, outcome)
        return used instanceof Promise ? used.then(settle).catch(giveUp) : settle(used)
      } catch (error) {
        return giveUp(error)
      }
    },
  }
}

/** The settlement of a request. Also notes the cost for log and metrics. */
function settlementOf(
  x: Exchange,
  want: Want,
  used: Used | undefined,
  { cut }: Outcome,
): Settlement {
  const { price } = want.model
  const believed = used && plausible(x, want, used)
  const cost = believed ? charge(price, believed) : 0
  const wasLowered = believed !== used
  const implausible = used && wasLowered ? charge(price, used) - cost : 0
  const tokens: TokenCounts = believed ?? noTokens
  const estimated = believed?.estimated ?? false
  Object.assign(x.facts, { tokens, estimated, cost, basis: used?.basis ?? 'none' })
  return { ...tokens, charge: cost, estimated, implausible, cut }
}

/** Lowers usage that cannot be, and returns any other as it is. So a backend with wrong counts ruins nobody (docs/money.md, what can be). */
function plausible<T extends TokenCounts>(x: Exchange, want: Want, used: T): T {
  const { mostPrompt, choices } = want
  const mostOutput = choices * runawayAt(x.granted?.outputPerChoice ?? 0)
  if (used.prompt <= mostPrompt && used.completion <= mostOutput) return used
  const prompt = Math.min(used.prompt, mostPrompt)
  const cached = Math.min(used.cached, prompt)
  return { ...used, prompt, cached, completion: Math.min(used.completion, mostOutput) }
}

/** What a request may cost: in balance tokens, and in the tokens that the limit of tokens a minute counts. That limit lowers the output only when the client has set no bound. */
function admissionOf(want: Want, minOutputTokens: number) {
  const { model, promptTokens, outputPerChoice, choices, fields } = want
  const outputTokens = outputPerChoice * choices
  const least = Math.min(outputTokens, minOutputTokens * choices)
  const costOf = (completion: number) =>
    charge(model.price, { prompt: promptTokens, cached: 0, completion })
  return {
    want: costOf(outputTokens),
    min: costOf(least),
    promptTokens,
    outputTokens,
    // A client that set a bound gets all of it, or a refusal.
    leastOutputTokens: fields.bound === undefined ? least : outputTokens,
    neverFits: (limit: number) => tooMuch(want, limit),
  }
}

/** What each choice may generate: what the hold pays for, and the limit of tokens a minute has counted. */
function outputGranted(
  { model, promptTokens, outputPerChoice, choices }: Want,
  hold: Hold,
): number {
  const afforded = outputAfforded(model.price, { amount: hold.amount, promptTokens, choices })
  const counted = (hold.fields.countedTokens - promptTokens) / Math.max(1, choices)
  return Math.min(outputPerChoice, afforded, Math.floor(counted))
}

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

/** The usage so far, for a checkpoint: if the gateway is killed, the account is charged for it. */
function progressOf(x: Exchange, want: Want): Progress {
  const { model, promptTokens } = want
  const { meter } = x
  if (!meter?.sawContent) return noProgress
  const said = meter.reported
  const completion = Math.max(1, meter.roughTokens, said?.completion ?? 0)
  const used = plausible(x, want, { prompt: said?.prompt || promptTokens, cached: 0, completion })
  return { ...used, charge: charge(model.price, used) }
}

/** The usage to charge; undefined for none. A promise only when tokens have to be counted. */
function usedBy(
  x: Exchange,
  want: Want,
  outcome: Outcome,
): Used | undefined | Promise<Used | undefined> {
  const { meter } = x
  const isCancelled = outcome.clientLeft || outcome.error?.code === 'message_cancelled'
  // The backend may have read the prompt, and leaving must not make that free.
  const owesPrompt = isCancelled && outcome.backendAsked
  const hasOutput = meter !== undefined && (outcome.complete || meter.sawContent)
  if (!hasOutput && !owesPrompt) return undefined
  if (meter?.reported?.prompt) return meter.used({ promptTokens: 0 })
  return countedBy(want, hasOutput ? meter : undefined)
}

async function countedBy(want: Want, meter: Meter | undefined): Promise<Used> {
  const promptTokens = await (want.countPrompt?.() ?? want.promptTokens)
  if (meter) return await meter.used({ promptTokens })
  return { prompt: promptTokens, cached: 0, completion: 0, estimated: true, basis: 'counted' }
}
