// What a stateless request asks for: which model, streamed or not, how much it may generate; and the body that a target
// gets for it: the client's bytes, with only the gateway's own fields spliced.

import { createHmac } from 'node:crypto'
import type { Model, Target } from '../config/config.ts'
import type { EndpointRow } from '../config/endpoints.ts'
import { free } from '../sharing/discard.ts'
import type { MeterOptions } from '../backend/usage.ts'
import type { GatewayError } from '../errors.ts'
import type { Exchange } from '../exchange.ts'
import type { Want } from '../ledger/want.ts'
import { scanJson } from '../http/json/scan.ts'
import type { JsonScan } from '../http/json/scan.ts'
import { invalid, missing } from '../http/refusals.ts'
import { spliceBody } from '../http/json/splice.ts'
import { field } from '../http/json/field.ts'
import { countPrompt } from '../tokens/count-prompt.ts'
import type { KnownPrompt } from '../tokens/count-prompt.ts'
import { countChoices, estimatePrompt } from '../tokens/estimate.ts'
import { writeStreamOptions } from './parameter-bounds.ts'
import { judgeBody, parameterNames, refusalFor } from './parameter-check.ts'

/** Has all that admission needs to know, so a route can set it as the `want` of its exchange. */
export interface ChatRequest extends Omit<Want, 'sessionId' | 'messageId'> {
  readonly row: EndpointRow
  readonly stream: boolean
  /** The client asked for the usage chunk. */
  readonly wantsUsage: boolean
  /** The refusal of what this model does not take. Only callers with a good key get it: strangers learn nothing about models. */
  readonly refusal: GatewayError | undefined
  /** What the meter has to know of the answer. */
  expected(
    grantedPerChoice: number | undefined,
  ): Pick<MeterOptions, 'outputPerChoice' | 'choices' | 'tries' | 'echoed'>
  /**
   * The body for a target, in pieces. Its output is bounded by what was granted; without metering, by what client and
   * model allow.
   */
  bodyFor(target: Target, x: Pick<Exchange, 'grantedPerChoice' | 'caller'>): readonly Buffer[]
  /** To be called when no target will be asked any more. Releases the parsed values; and the bytes of a body of more than a megabyte, once its prompt is counted and if the body is sent. Returns how many bytes are kept. */
  forgetBody(backend: { readonly isSent: boolean }): number
}

/** The bytes of bodies up to here are kept: to count their prompts ahead would cost more than the memory is worth. */
const keptBytes = 1024 * 1024

const maximumFields = ['max_tokens', 'max_completion_tokens'] as const

/** Throws invalid_json, missing_, invalid_ and unknown_parameter. `find` knows ids and aliases; undefined where no such model serves the endpoint. */
export function parseChatRequest(
  body: Buffer,
  row: EndpointRow,
  find: (name: string) => Model | undefined,
): ChatRequest | undefined {
  const scan = scanJson(body, parameterNames)
  const name = scan.value('model')
  if (name === undefined) throw missing('model')
  if (typeof name !== 'string') throw invalid('model', 'must be a string')
  if (!scan.members.has(row.required)) throw missing(row.required)
  const judged = judgeBody(scan, row)
  const maximum = readMaximum(scan)
  const { choices, tries } = readChoices(scan)
  const stream = readStream(scan, row)
  const model = find(name)
  if (!model?.endpoints.includes(row.endpoint)) return undefined
  const addresses = judged.addresses.length
  const items = row.generates ? undefined : row.required
  const estimate = estimatePrompt({ body, scan, addresses, media: row.media, items }, model)
  const generated = row.generates ? choices : 0
  const echoes = scan.value('echo') === true
  const echoed = echoes ? choices * estimate.most : 0
  const outputPerChoice = row.generates ? Math.min(model.maxOutputTokens, maximum.most) : 0
  // The code below must refer to body and scan only through `held`; any other reference would keep them in memory.
  let held: Held | undefined = { body, scan }
  // A view of its own, because the parsed values are kept for as long as the original Buffer is (scan.ts).
  const { members } = scan
  let known: KnownPrompt | undefined = { body: body.subarray(), members, facts: estimate.facts }
  let counted: Promise<number> | undefined
  return {
    row,
    model,
    stream,
    wantsUsage: field(scan.value('stream_options'), 'include_usage') === true,
    choices: generated,
    promptTokens: estimate.tokens,
    mostPrompt: mostPrompt(estimate.most, row, model),
    countPrompt: (effort) => counted ?? countPrompt(there(known), effort),
    outputPerChoice,
    // True when all that is generated is sent, as it is generated: no hidden tries or reasoning, no echo of the prompt.
    isSeenAsItComes: stream && tries === 1 && !echoes && !model.hiddenReasoning,
    fields: { prompt: row.required, bound: row.generates ? maximum.field : undefined },
    refusal: refusalFor(judged, model),
    expected: (grantedPerChoice) => ({
      outputPerChoice: grantedPerChoice ?? outputPerChoice,
      choices: generated,
      tries,
      echoed,
    }),
    bodyFor: (target, { grantedPerChoice = Infinity, caller }) => {
      const { body, scan } = there(held)
      const bound = row.generates ? Math.min(outputPerChoice, grantedPerChoice) : undefined
      const edit = { bound, stream, name, ref: caller?.ref ?? '' }
      return spliceBody(body, scan, editsFor(scan, target, edit))
    },
    forgetBody({ isSent }) {
      held = undefined
      if (!known) return 0
      if (known.body.length <= keptBytes) return known.body.length
      const counting = known
      const done = () => (isSent ? free(counting.body) : undefined)
      counted = countPrompt(counting)
      counted.then(done, done) // whoever awaits the count gets the failure
      known = undefined
      return isSent ? 0 : counting.body.length
    },
  }
}

interface Held {
  readonly body: Buffer
  readonly scan: JsonScan
}

function there<T>(held: T | undefined): T {
  if (!held) throw new TypeError('the body was let go of')
  return held
}

interface Maximum {
  readonly most: number
  /** Undefined where the client set none. */
  readonly field?: string
}

/** The lowest maximum that the client set. */
export function readMaximum(scan: JsonScan): Maximum {
  let lowest: Maximum = { most: Infinity }
  for (const field of maximumFields) {
    const most = readCount(scan, field) ?? Infinity
    if (most < lowest.most) lowest = { most, field }
  }
  return lowest
}

/** `tries` is how many answers are generated for each choice that is sent. */
function readChoices(scan: JsonScan) {
  const n = readCount(scan, 'n')
  const best_of = readCount(scan, 'best_of')
  const choices = countChoices({ prompt: scan.value('prompt'), n, best_of })
  if (!Number.isSafeInteger(choices) || choices > 1024)
    throw invalid('n', 'asks for more than 1024 choices')
  return { choices, tries: Math.max(1, (best_of ?? 1) / (n ?? 1)) }
}

/** An integer ≥ 1; undefined where absent or null. */
function readCount(scan: JsonScan, field: string): number | undefined {
  const value = scan.value(field)
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 1) {
    throw invalid(field, 'must be an integer ≥ 1 or null')
  }
  return Math.min(value, Number.MAX_SAFE_INTEGER)
}

function readStream(scan: JsonScan, row: EndpointRow): boolean {
  const stream = scan.value('stream') ?? false
  if (typeof stream !== 'boolean') throw invalid('stream', 'must be true, false or null')
  if (stream && !row.generates)
    throw invalid('stream', 'must be false: this endpoint does not stream')
  return stream
}

/** Only on chat does the model's window bound a prompt: a body of another endpoint may hold any number of prompts. */
function mostPrompt(most: number, { endpoint }: EndpointRow, { promptWindow }: Model): number {
  return endpoint === 'chat' ? Math.min(most, promptWindow) : most
}

interface Edit {
  readonly bound: number | undefined
  readonly stream: boolean
  /** The client's name of the model. */
  readonly name: string
  readonly ref: string
}

/** The bound goes out in the one field that the target obeys: several servers ignore `max_completion_tokens`. */
function editsFor(scan: JsonScan, target: Target, { bound, stream, name, ref }: Edit) {
  const edits = new Map<string, string | undefined>()
  if (target.model !== name) edits.set('model', JSON.stringify(target.model))
  if (bound !== undefined) {
    const carrier = target.maxTokensField ?? 'max_tokens'
    for (const field of maximumFields) {
      if (field !== carrier && scan.members.has(field)) edits.set(field, undefined)
    }
    if (scan.value(carrier) !== bound) edits.set(carrier, String(bound))
  }
  const options = writeStreamOptions(scan.value('stream_options'), {
    ...(stream && target.includeUsage && { include_usage: true }),
    ...(stream && target.continuousUsage && { continuous_usage_stats: true }),
  })
  if (options !== scan.text('stream_options')) edits.set('stream_options', options)
  if (target.cacheSalt) edits.set('cache_salt', JSON.stringify(saltOf(target, ref)))
  return edits
}

/**
 * Keeps the prefix caches of accounts apart: vLLM and SGLang share cached prompts only between requests of one salt.
 * All requests of an account have the same salt, on every gateway, and nobody can tell the account from it. Its HMAC is
 * keyed with the credential of the target, the one secret that gateway and backend have in common.
 */
function saltOf({ key = '' }: Target, ref: string): string {
  return createHmac('sha256', key).update(`cache_salt:${ref}`).digest('base64url')
}
