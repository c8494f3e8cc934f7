// Makes a hold before a request and settles it after: turns what the request wants into balance tokens, and what it
// used into a charge (docs/money.md, promise 5). The script that makes the hold also counts the limits of plan and key.
// In shadow mode (`enforce: false`), limits and money refuse nobody, and neither of them bounds the output.

import { z } from '../config/schema.ts'
import { GatewayError } from '../errors.ts'
import type { Exchange, Hooks, Outcome } from '../exchange.ts'
import type { Gateway, Plugin } from '../plugin.ts'
import { limitHeaders } from '../http/headers.ts'
import type { Settlement } from '../ledger/orders.ts'
import { noProgress } from '../ledger/hold.ts'
import type { Hold, Progress, Settled } from '../ledger/hold.ts'
import { ledgerSettings } from '../ledger/open.ts'
import { charge } from '../ledger/price.ts'
import { lowBalanceHeaders } from '../accounts/low-balance.ts'
import { enforcement } from '../accounts/plan.ts'
import { Slices } from '../ledger/slices.ts'
import { grantedBy, sizesOf } from '../ledger/want.ts'
import type { Want } from '../ledger/want.ts'
import { runawayAt } from '../backend/usage.ts'
import type { Meter } from '../backend/usage.ts'
import type { Used } from '../backend/report.ts'
import { quick } from '../tokens/count-pieces.ts'
import { noTokens } from '../tokens/token-counts.ts'
import type { TokenCounts } from '../tokens/token-counts.ts'

const schema = z.strictObject({
  ...ledgerSettings.shape,
  min_output_tokens: z
    .int()
    .min(1)
    .default(16)
    .describe('A request is refused when the balance affords fewer output tokens than this.'),
  hold: z
    .strictObject({
      mode: z
        .enum(['full', 'sliced'])
        .default('full')
        .describe(
          '`full` holds all that a request may cost. `sliced` holds the prompt of a stream and one slice of its output, and extends the hold before it is used up: streams share a modest balance, and one that has used it up ends with `finish_reason: "length"`.',
        ),
      slice: z
        .int()
        .min(64)
        .max(1_000_000)
        .default(1024)
        .describe(
          'Output tokens of a slice. An extension is one more call to Redis about each half slice.',
        ),
    })
    .prefault({})
    .describe('How much a stream holds of the balance while it runs.'),
  ...enforcement.shape,
})

type MeteringConfig = z.infer<typeof schema>

export const metering: Plugin<MeteringConfig> = {
  name: 'metering',
  schema: schema.describe(
    'What a request costs is held and charged, within the limits of plan and key. With `false`, models are free for every valid key, and `sessions` must be off, too.',
  ),
  setup: (gateway, config) => ({
    begin: (x) => (x.route.metered ? meter(gateway, x, config) : undefined),
  }),
}

function meter(gateway: Gateway, x: Exchange, config: MeteringConfig): Hooks {
  const { ledger } = gateway
  const low = (available: number) => lowBalanceHeaders(gateway.config, available)
  const isShadow = !config.enforce
  const { mode, slice } = config.hold
  const sizing = {
    minOutputTokens: config.min_output_tokens,
    slice: mode === 'sliced' ? slice : undefined,
  }
  let hold: Hold | undefined
  /** In shadow mode: the hold got less than the request may cost. */
  let isShort = false
  return {
    // `done` may have to count tokens, which ends by itself. If nobody waited, log and message would say that the answer cost nothing.
    doneEnds: true,
    async admit() {
      if (!x.caller) throw new GatewayError('missing_api_key')
      // A request for an unknown model, or one that only continues to read a stream, needs no hold. But its key must be valid,
      // so that a client without a key learns nothing about models.
      if (!x.want) {
        x.identity = await ledger.identify(x.caller)
        return
      }
      // A request has at most one hold, so one id finds the request and its hold.
      const holdId = x.id.slice('req_'.length)
      const { want } = x
      const { model, sessionId, messageId } = want
      const meta = { requestId: x.id, sessionId, messageId, price: model.price }
      const sizes = sizesOf(want, sizing)
      const { ref, hmac, scope } = x.caller
      const request = { ...sizes, ref, hmac, scope, holdId, model: model.id, meta, isShadow }
      hold = await ledger.admit(request).catch((error: unknown) => {
        const { available } = (error instanceof GatewayError && error.shortage) || {}
        if (available !== undefined) Object.assign(x.replyHeaders, low(available))
        throw error
      })
      hold.onStop((reason) => {
        x.stopped = reason
        x.stop?.(reason)
      })
      x.identity = hold.fields
      x.facts.wouldRefuse = hold.fields.wouldRefuse
      isShort = isShadow && !sizes.isSliced && hold.amount < sizes.amount
      Object.assign(x.replyHeaders, limitHeaders(hold.fields.limits), low(hold.fields.available))
      const grantedPerChoice = grantedBy(hold, want, sizes)
      x.grantedPerChoice = grantedPerChoice
      const { read, gauge } = progressOf(x, want)
      hold.watch(read, gauge)
      // In shadow mode, a hold may have less than `sizes.min`, for want of money: its stream then goes on unsliced.
      if (sizes.isSliced && hold.amount >= sizes.min)
        x.alarm = slicesOf(gateway, x, { want, hold, grantedPerChoice, slice }).alarm
    },
    done(outcome) {
      if (!hold || !x.want) return undefined
      const { want } = x
      const held = hold
      const send = (settlement: Settlement) => {
        const settled = ledger.settle(held, settlement) // not awaited: the cost is known already
        if (isShadow) x.facts.unpaid = settled.then(unpaidOf)
        x.written = gateway.redis.written()
      }
      // Called at once when the usage is known, else when its tokens are counted.
      const settle = (used: Used | undefined) => {
        const settlement = settlementOf(x, want, used, outcome)
        if (used && settlement.implausible) tellDisbelief(gateway, x, { used, settlement })
        // Without shadow mode, the request's output would have been bounded, or stopped when its hold was used up.
        const wouldCut = held.wouldStop || (isShort && settlement.charge > held.amount)
        if (wouldCut) x.facts.wouldRefuse ??= 'insufficient_balance'
        // A ledger that is closing has already settled this hold, by its progress at that time. That progress is the cost,
        // whatever was used since.
        if (used && held.settlement) noteProgress(x, held)
        send(settlement)
      }
      // The count failed: settles what the hold's progress says, as a checkpoint would store it now. Without a settlement,
      // the hold would be renewed for ever.
      const giveUp = (error: unknown) => {
        noteProgress(x, held)
        send({ ...held.progress, estimated: true })
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

/** In shadow mode: the part of a cost that the account does not pay. Infinity stands for the whole cost: while the settlement waits, because all of it may still be waived; and if nothing was charged, because the settlement came too late. */
function unpaidOf({ charge: cost, waived, isWaiting }: Settled): number {
  return isWaiting || cost === 0 ? Infinity : waived
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
  const implausible = used && believed !== used ? charge(price, used) - cost : 0
  const tokens: TokenCounts = believed ?? noTokens
  const estimated = believed?.estimated ?? false
  Object.assign(x.facts, { tokens, estimated, cost, basis: used?.basis ?? 'none' })
  return { ...tokens, charge: cost, estimated, implausible, cut }
}

interface Disbelief {
  readonly used: Used
  readonly settlement: Settlement
}

/** Logged here, because the ledger, which counts the same tokens for a metric, does not know which target reported them. */
function tellDisbelief({ log }: Gateway, x: Exchange, { used, settlement }: Disbelief): void {
  const fields = {
    request_id: x.id,
    account: x.identity?.accountId,
    key: x.identity?.keyId,
    model: x.facts.model,
    target: x.facts.target,
    reported_prompt_tokens: used.prompt,
    reported_completion_tokens: used.completion,
    prompt_tokens: settlement.prompt,
    completion_tokens: settlement.completion,
    cost: settlement.charge,
    not_charged_balance_tokens: settlement.implausible,
  }
  log.warn(fields, 'a backend reported more than its request can have used')
}

/** Notes, for log, metrics and a message's row: the request costs what its hold's progress says, and its tokens are an estimate. */
function noteProgress(x: Exchange, { progress: { charge: cost, ...tokens } }: Hold): void {
  Object.assign(x.facts, { tokens, estimated: true, cost, basis: 'counted' })
}

/** Lowers counts that are impossible, so that a backend with wrong counts ruins nobody (docs/money.md, what is possible). Returns `used` itself when its counts are possible. */
function plausible<T extends TokenCounts>(x: Exchange, want: Want, used: T): T {
  const { mostPrompt, choices } = want
  const mostOutput = choices * runawayAt(x.grantedPerChoice ?? 0)
  if (used.prompt <= mostPrompt && used.completion <= mostOutput) return used
  const prompt = Math.min(used.prompt, mostPrompt)
  const cached = Math.min(used.cached, prompt)
  return { ...used, prompt, cached, completion: Math.min(used.completion, mostOutput) }
}

interface Slicing {
  readonly want: Want
  readonly hold: Hold
  readonly grantedPerChoice: number
  readonly slice: number
}

function slicesOf(
  { ledger }: Gateway,
  x: Exchange,
  { want, hold, grantedPerChoice, slice }: Slicing,
): Slices {
  const { model, promptTokens, choices } = want
  return new Slices({
    hold,
    price: model.price,
    promptTokens,
    outputTokens: grantedPerChoice * choices,
    slice,
    roughTokens: () => x.meter?.roughTokens ?? 0,
    isFinished: () => x.meter?.finished === true,
    countPrompt: () => want.countPrompt(),
    async count(prompt) {
      const used = await x.meter?.used({ promptTokens: prompt })
      // The extension that follows stores the hold's progress, as a checkpoint does: so it is gauged now.
      await hold.gauge()
      return used ? plausible(x, want, used) : noTokens
    },
    extend: ledger.extend,
    pause: (until) => x.pause?.(until),
  })
}

/** The usage so far, for checkpoints: if the gateway is killed, the account is charged for it. `gauge` makes it more exact: it counts a sample of the output, and the prompt once. */
function progressOf(x: Exchange, want: Want) {
  let { promptTokens } = want
  let isCounted = false
  return {
    read(): Progress {
      const { meter } = x
      if (!meter?.sawContent) return noProgress
      const used = plausible(x, want, meter.soFar({ promptTokens }))
      return { ...used, charge: charge(want.model.price, used) }
    },
    async gauge() {
      const { meter } = x
      if (!meter?.sawContent) return
      await meter.gauge()
      if (isCounted || meter.reported?.prompt) return
      promptTokens = await want.countPrompt(quick)
      isCounted = true
    },
  }
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
  // The backend has reported the prompt, so it need not be counted: `promptTokens` is not used then.
  if (meter?.reported?.prompt) return meter.used({ promptTokens: 0 })
  return countedBy(want, hasOutput ? meter : undefined)
}

async function countedBy(want: Want, meter: Meter | undefined): Promise<Used> {
  const promptTokens = await want.countPrompt()
  if (meter) return await meter.used({ promptTokens })
  return { prompt: promptTokens, cached: 0, completion: 0, estimated: true, basis: 'counted' }
}
