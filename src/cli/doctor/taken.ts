// Finds out which parameters a target takes: one short request for each parameter that matters, all at once, for a
// token each. A server that answers may still have ignored a parameter; that is reported when the answer shows it. This
// check never fails: to lack a parameter is not a fault.

import { forward } from '../../backend/forward.ts'
import { SseReader } from '../../backend/sse-reader.ts'
import { chatRow } from '../../config/endpoints.ts'
import type { Target } from '../../config/config.ts'
import { field, parsed } from '../../http/json/field.ts'
import { plural } from '../command.ts'
import { ok } from './examination.ts'
import type { CheckOutcome } from './examination.ts'
import type { ModelTarget } from './one-token.ts'
import { readBody } from './refusal.ts'

interface Asking extends ModelTarget {
  readonly signal: AbortSignal
  /** A parameter without an answer after this time counts as `does not tell`. */
  readonly limitMs: number
}

interface Probe {
  readonly name: string
  readonly fields: object
  /** Whether the answer shows that the parameter was taken. Gets the chunks of a stream, or the whole answer as the only chunk. Absent when no answer can show it. */
  sees?(chunks: readonly unknown[]): boolean
}

const verdicts = ['takes', 'ignores', 'refuses', 'does not tell'] as const

interface Told {
  readonly name: string
  readonly verdict: (typeof verdicts)[number]
  readonly tokens: number
}

export async function askWhatIsTaken({ limitMs, ...asking }: Asking): Promise<CheckOutcome> {
  // A little before the examination itself gives up.
  const late = AbortSignal.timeout(limitMs * 0.8)
  const signal = AbortSignal.any([asking.signal, late])
  const told = await Promise.all(
    probesFor(asking.target).map((one) => ask(one, { ...asking, signal })),
  )
  asking.signal.throwIfAborted()
  const parts = verdicts.flatMap((verdict) => {
    const names = told.filter((one) => one.verdict === verdict).map(({ name }) => name)
    return names.length > 0 ? [`${verdict} ${names.join(', ')}`] : []
  })
  const tokens = told.reduce((sum, one) => sum + one.tokens, 0)
  return ok(`${parts.join('; ')}; cost ${plural(tokens, 'token')} there`)
}

function probesFor({ maxTokensField }: Target): readonly Probe[] {
  const isOther = maxTokensField !== 'max_completion_tokens'
  return [...(isOther ? [maxCompletionTokens] : []), ...probes]
}

const choiceOf = (chunk: unknown): unknown => {
  const choices = field(chunk, 'choices')
  return Array.isArray(choices) ? choices[0] : undefined
}

const maxCompletionTokens: Probe = {
  name: 'max_completion_tokens',
  fields: { max_tokens: undefined, max_completion_tokens: 1 },
  sees: ([answer]) =>
    field(choiceOf(answer), 'finish_reason') === 'length' || tokensIn([answer]) === 1,
}

const tool = {
  type: 'function',
  function: { name: 'add', parameters: { type: 'object', properties: { a: { type: 'number' } } } },
}

const probes: readonly Probe[] = [
  {
    name: 'n',
    fields: { n: 2 },
    sees([answer]) {
      const choices = field(answer, 'choices')
      return Array.isArray(choices) && choices.length === 2
    },
  },
  {
    name: 'logprobs',
    fields: { logprobs: true, top_logprobs: 1 },
    sees: ([answer]) => typeof (field(choiceOf(answer), 'logprobs') ?? undefined) === 'object',
  },
  { name: 'tools', fields: { tools: [tool] } },
  { name: 'response_format', fields: { response_format: { type: 'json_object' } } },
  { name: 'top_k', fields: { top_k: 10 } },
  { name: 'min_p', fields: { min_p: 0.1 } },
  {
    name: 'stream_options.include_usage',
    fields: { stream: true, stream_options: { include_usage: true } },
    sees: (chunks) => tokensIn(chunks) > 0,
  },
  {
    name: 'stream_options.continuous_usage_stats',
    fields: { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } },
    sees: (chunks) =>
      chunks.some((chunk) => choiceOf(chunk) !== undefined && tokensIn([chunk]) > 0),
  },
]

async function ask(
  { name, fields, sees }: Probe,
  { model, target, signal }: Omit<Asking, 'limitMs'>,
): Promise<Told> {
  const nothing = { name, verdict: 'does not tell', tokens: 0 } as const
  const body = [bodyOf(target, fields)]
  const headers = { 'content-type': 'application/json', accept: 'application/json' }
  try {
    const request = { path: chatRow.path, headers, body }
    const answer = await forward({ target, model, request, signal })
    const text = await readBody(answer.stream)
    if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) {
      return { ...nothing, verdict: 'refuses' }
    }
    if (answer.status !== 200) return nothing
    const chunks = chunksOf(text)
    const verdict = !sees || sees(chunks) ? 'takes' : 'ignores'
    return { name, verdict, tokens: tokensIn(chunks) }
  } catch {
    return nothing // too late, or cut off: the chat check before this one reports such faults
  }
}

/** The message has the word JSON, because some servers demand that with `response_format`. */
function bodyOf({ model, maxTokensField = 'max_tokens' }: Target, fields: object): Buffer {
  const messages = [{ role: 'user', content: 'Say {} in JSON.' }]
  return Buffer.from(JSON.stringify({ model, messages, [maxTokensField]: 1, ...fields }))
}

function chunksOf(text: Buffer): readonly unknown[] {
  const whole = parsed(text.toString())
  if (whole !== undefined) return [whole]
  const chunks: unknown[] = []
  new SseReader(text.length).feed(text, ({ data }) => {
    chunks.push(parsed(data))
  })
  return chunks
}

/** The largest count that a chunk reports: some servers report in each chunk. */
function tokensIn(chunks: readonly unknown[]): number {
  const counts = chunks.map((chunk) => field(field(chunk, 'usage'), 'completion_tokens'))
  return Math.max(0, ...counts.filter((count) => typeof count === 'number'))
}
