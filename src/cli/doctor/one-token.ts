// Asks a target for one token in a stream, by the code that a request goes through: does the token come, does the
// stream end as the model's `complete_when` says, is usage reported? Sends one short message and reads no more than
// needed.

import type { BackendAnswer } from '../../backend/forward.ts'
import { forward } from '../../backend/forward.ts'
import { saidBy } from '../../backend/said.ts'
import { SseReader } from '../../backend/sse-reader.ts'
import { Meter, runawayAt } from '../../backend/usage.ts'
import { chatRow } from '../../config/endpoints.ts'
import { parseChatRequest } from '../../chat/request.ts'
import type { Model, Target } from '../../config/config.ts'
import { plural } from '../command.ts'
import { fail, ok, reasonOf, warn } from './examination.ts'
import type { CheckOutcome } from './examination.ts'
import { readBody, refusal } from './refusal.ts'

export interface ModelTarget {
  readonly model: Model
  readonly target: Target
}

export async function askOneToken(route: ModelTarget, signal: AbortSignal): Promise<CheckOutcome> {
  const { model, target } = route
  if (!model.endpoints.includes('chat')) {
    return ok(`not tried: the model serves ${model.endpoints.join(', ')}, not chat`)
  }
  const messages = [{ role: 'user', content: 'Hi' }]
  const plain = Buffer.from(JSON.stringify({ model: model.id, messages, stream: true }))
  const asker = { grantedPerChoice: askedTokens }
  const body = parseChatRequest(plain, chatRow, () => model)?.bodyFor(target, asker) ?? [plain]
  const headers = { 'content-type': 'application/json', accept: 'text/event-stream' }
  const begun = performance.now()
  const request = { path: chatRow.path, headers, body }
  const answer = await forward({ target, model, request, signal })
  if (answer.status !== 200) return refusal(answer.status, await readBody(answer.stream), target)
  const heard = await hear(answer, model)
  return judge(heard, { ...route, ms: performance.now() - begun })
}

const askedTokens = 1
/** A backend that sends more events than this does not obey the bound of one token. */
const mostEvents = 64
/** As long as the gateway itself waits for usage and [DONE] after a finish_reason. */
const afterFinishMs = 2000
const mostEventBytes = 2 ** 20

interface Heard {
  readonly meter: Meter
  readonly error?: string
  /** Why the stream broke off. */
  readonly cut?: string
}

async function hear(answer: BackendAnswer, { completeWhen }: Model): Promise<Heard> {
  const meter = new Meter({ completeWhen, choices: 1, count: async () => 0 })
  const reader = new SseReader(mostEventBytes)
  let error: string | undefined
  let last: NodeJS.Timeout | undefined
  try {
    for await (const chunk of answer.stream as AsyncIterable<Buffer>) {
      reader.feed(chunk, ({ data }) => {
        if (meter.event(data) === 'error') error ??= data
      })
      if (meter.sawDone || meter.sawError || meter.contentEvents > mostEvents) break
      if (meter.finished) last ??= setTimeout(answer.abort, afterFinishMs)
    }
  } catch (thrown) {
    return { meter, cut: reasonOf(thrown) }
  } finally {
    clearTimeout(last)
    answer.abort()
  }
  return { meter, ...(error !== undefined && { error }) }
}

interface Judging extends ModelTarget {
  readonly ms: number
}

function judge(heard: Heard, { model, target, ms }: Judging): CheckOutcome {
  const { meter, error } = heard
  if (error !== undefined) {
    return fail(`an error came in the stream: ${saidBy(Buffer.from(error, 'latin1'), target)}`)
  }
  if (meter.contentEvents > mostEvents) {
    return warn('it generated more than the one token asked for; try another max_tokens_field')
  }
  if (!meter.finished) return fail(unfinished(heard, model))
  const { reported, sawDone, finishReason } = meter
  const finish = finishReason === undefined ? 'no finish_reason' : `finish_reason ${finishReason}`
  const stream = `in ${ms.toFixed(0)} ms, ${finish}, ${sawDone ? '[DONE]' : 'no [DONE]'}`
  const tokens = reported?.completion ?? 1
  const cost = `cost ${plural(tokens, 'token')} there`
  if (reported?.completion === undefined) {
    const why = target.includeUsage
      ? 'no usage reported'
      : 'usage not asked for (include_usage: false)'
    return warn(`${stream}; ${why}: the gateway counts tokens itself; ${cost}`)
  }
  if (reported.completion > askedTokens) return judgeExcess(reported.completion, { meter, target })
  const usage = `usage reported (${reported.prompt ?? 0} + ${reported.completion})`
  return ok(`${stream}, ${usage}; ${cost}`)
}

/** What is possible is charged, whatever the customer's limit was (docs/money.md, what is possible). */
function judgeExcess(
  completion: number,
  { meter, target }: { readonly meter: Meter; readonly target: Target },
): CheckOutcome {
  const { maxTokensField = 'max_tokens' } = target
  const most = runawayAt(askedTokens)
  const sent = `${plural(meter.contentEvents, 'event')} with content`
  const both = `it reports ${completion} completion tokens, and ${maxTokensField} was ${askedTokens} (${sent})`
  if (completion > most)
    return fail(`${both}: the gateway believes, and charges, ${most} of them at most`)
  return warn(
    `${both}: customers are charged for all ${completion}, also beyond their limit; if it generated them, try another max_tokens_field`,
  )
}

function unfinished({ meter, cut }: Heard, { completeWhen }: Model): string {
  if (cut !== undefined) return `the stream broke off: ${cut}`
  if (completeWhen === 'done') return 'the stream ended without [DONE]'
  if (!meter.sawDone) return 'the stream ended without a finish_reason'
  return '[DONE] came without a finish_reason; if it never sends one, set complete_when: done'
}
